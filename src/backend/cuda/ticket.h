// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tr::cuda {

/// Number of a counter in device memory by which the blocks of one node find out which of them ends
/// last. A node never runs beside itself, so it may have the counter for as long as it is prepared;
/// counters start at zero and return to it by themselves.
class Ticket {
 public:
  static constexpr int kCount = 4096;

  /// @throws DeviceError  all of them are taken.
  Ticket();
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace tr::cuda
