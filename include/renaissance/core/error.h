// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "renaissance/core/export.h"

namespace tr {

/// Root of every exception that this library throws. what() names who, the value, what was expected.
class TR_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller gave a wrong value, shape, name or order of calls. Python: ValueError.
class TR_API InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// The request is meaningful, but this build, device or version cannot do it. Python: NotImplementedError.
class TR_API Unsupported : public Error {
 public:
  using Error::Error;
};

/// The plan does not fit its budget, or memory could not be had. Python: MemoryError.
class TR_API OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// A file, a sample or a transfer is missing, damaged or unreadable. Python: OSError.
class TR_API DataError : public Error {
 public:
  using Error::Error;
};

/// A device, its driver or one of its libraries failed. Python: RuntimeError.
class TR_API DeviceError : public Error {
 public:
  using Error::Error;
};

/// A fault of this library, never of its user. Python: AssertionError.
class TR_API InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace tr
