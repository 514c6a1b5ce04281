// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <signal.h>

namespace tr {

/// For as long as it lives the calling thread takes no signals, and neither do, for good, threads
/// that it starts: signals are for the threads of the program, which know what to do with them.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t former_;
};

}  // namespace tr
