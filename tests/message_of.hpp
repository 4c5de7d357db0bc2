// The text of an error, for tests that check it exactly.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

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

}  // namespace reprolab
