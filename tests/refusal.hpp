// What a call that refuses throws, and the noun that its message needs.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

#include "tests/text.hpp"

namespace reprolab {

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

/// Fails the test unless `action` throws an `Exception` whose text has `noun`.
template <class Exception, class Action>
void expect_refused(Action&& action, const std::string& noun) {
  EXPECT_TRUE(contains(message_of<Exception>(action), noun));
}

}  // namespace reprolab
