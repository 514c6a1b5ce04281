// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace tr::data {

/// One GET.
struct HttpRequest {
  std::string url;
  std::int64_t resume_from = 0;  // first byte asked for, by Range
  double connect_timeout_s = 15;
  double stall_s = 30;
};

enum class HttpOutcome {
  DONE,         // the whole body came
  INTERRUPTED,  // connection cut or stalled: worth another try
  UNREACHABLE,  // no such host, nobody listening, or no connection in time: on to the next mirror
  NO_RANGE,     // the server cannot resume: begin anew
  REFUSED       // an HTTP status of 400 or above, or a URL that makes no sense
};

struct HttpResult {
  HttpOutcome outcome = HttpOutcome::DONE;
  std::string message;  // of what went wrong
};

/// Runs the request through libcurl, which is loaded at the first call: programs start and train
/// without it. `sink` gets the body; false ends the transfer (REFUSED).
/// @throws Unsupported  there is no libcurl on this system.
HttpResult http_get(const HttpRequest& request,
                    const std::function<bool(std::span<const std::byte>)>& sink);

}  // namespace tr::data
