// Checks of texts, whose failures show the text.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>

namespace reprolab {

inline testing::AssertionResult answer(bool yes, const std::string& text, std::string_view question,
                                       std::string_view part) {
  return yes ? testing::AssertionSuccess() << "'" << part << "' " << question << ":\n"
                                           << text
             : testing::AssertionFailure() << "'" << part << "' not " << question << ":\n"
                                           << text;
}

inline testing::AssertionResult contains(const std::string& text, std::string_view part) {
  return answer(text.find(part) != std::string::npos, text, "found in", part);
}

inline testing::AssertionResult begins(const std::string& text, std::string_view part) {
  return answer(text.starts_with(part), text, "at the beginning of", part);
}

inline testing::AssertionResult ends(const std::string& text, std::string_view part) {
  return answer(text.ends_with(part), text, "at the end of", part);
}

/// Whether the whole text matches a regular expression.
inline testing::AssertionResult matches(const std::string& text, const std::string& pattern) {
  return answer(std::regex_match(text, std::regex(pattern)), text, "matched by", pattern);
}

/// Whether a part of the text matches a regular expression.
inline testing::AssertionResult has_match(const std::string& text, const std::string& pattern) {
  return answer(std::regex_search(text, std::regex(pattern)), text, "matched in", pattern);
}

}  // namespace reprolab
