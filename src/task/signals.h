// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tr {

/// While one is alive, SIGINT and SIGTERM only set a flag; the former handlers come back with the
/// last one. A second signal takes its usual course, so that a hanging run can still be ended.
class SignalGuard {
 public:
  explicit SignalGuard(bool active);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  /// The signal that came while a guard is alive, 0 if none did or there is no guard.
  static int received();

 private:
  bool active_;
};

}  // namespace tr
