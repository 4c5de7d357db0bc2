// The golden file of messages, tests/messages.json, in C++: conftest.py has the same for Python.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace reprolab {

/// Compares a text, without its folders, with the test's next one in tests/messages.json.
void expect_message(const std::string& text);

/// The same for a text with one part that differs between runs or builds, called `name` in the
/// file.
void expect_message(std::string text, const std::string& part, const std::string& name);

/// The text of the `Exception` that `action` throws; anything else fails the test.
template <class Exception, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an exception of another type: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no exception";
  return {};
}

/// Compares that text, too, with the test's next message.
template <class Exception, class Action>
void expect_refused(Action&& action) {
  expect_message(message_of<Exception>(action));
}

}  // namespace reprolab
