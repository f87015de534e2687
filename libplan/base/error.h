// One exception type for what a caller can cause, one for our own bugs.
//
// Error carries what was required, what was found and where (file and JSON pointer, or
// tensor/axis/rank). InternalError means that libplan broke one of its own promises; it is never
// raised for bad input.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace plan {

enum class ErrorCode {
  Usage,        // wrong option or argument; exit 2
  Unreadable,   // missing file, broken JSON, truncated plan; exit 2
  BadInput,     // read, but wrong: unknown key, wrong type, sizes that do not divide; exit 1
  Unsupported,  // read and understood, but outside what libplan covers; exit 1
  Infeasible,   // no schedule exists under the limits, or state is lost; exit 1
  Executor,     // a replay failed at run time; exit 3
  Io,           // writing failed; exit 3
};

class Error : public std::runtime_error {
 public:
  // `place` names where the fault is, e.g. "list.json:/3/world_size"; it may be empty.
  Error(ErrorCode code, std::string message, std::string place = {})
      : std::runtime_error(place.empty() ? message : place + ": " + message),
        code_(code),
        message_(std::move(message)),
        place_(std::move(place)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& place() const { return place_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string place_;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_check_failure(const char* condition, const char* file, int line);

}  // namespace plan

// Checks a promise of our own code; stays on in release builds since planning is not a hot loop.
#define PLAN_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::plan::throw_check_failure(#condition, __FILE__, __LINE__))
