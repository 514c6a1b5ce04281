// SPDX-License-Identifier: Apache-2.0
#include "data/curl_library.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <cmath>
#include <string>

#include "core/check.h"
#include "core/clock.h"

// curl.h wraps this variadic function in a type-checking macro; the pointer type needs the function
// itself.
#undef curl_easy_setopt

namespace tr::data {
namespace {

using Sink = std::function<bool(std::span<const std::byte>)>;

/// The functions that are used, by address.
struct CurlApi {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) init = nullptr;
  decltype(&curl_easy_setopt) setopt = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_cleanup) cleanup = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
};

template <typename F>
void resolve(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) throw_as<Unsupported>("download: libcurl has no function {}", name);
}

CurlApi load() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    throw_as<Unsupported>(
        "download: libcurl.so.4 cannot be loaded ({}); install libcurl4, or put the files in place "
        "by hand",
        dlerror());
  }
  CurlApi api;
  resolve(library, "curl_global_init", api.global_init);
  resolve(library, "curl_easy_init", api.init);
  resolve(library, "curl_easy_setopt", api.setopt);
  resolve(library, "curl_easy_perform", api.perform);
  resolve(library, "curl_easy_cleanup", api.cleanup);
  resolve(library, "curl_easy_strerror", api.strerror);
  if (api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    throw_as<Unsupported>("download: libcurl cannot be initialised");
  }
  return api;
}

const CurlApi& curl() {
  static const CurlApi api = load();  // thread-safe; tried again if it threw
  return api;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* sink) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size * count);
  return (*static_cast<const Sink*>(sink))(bytes) ? bytes.size() : 0;
}

/// When the last bytes came. curl's own limit looks at a mean over several seconds, which a burst
/// keeps up long after it.
struct StallWatch {
  Stopwatch since_bytes;
  curl_off_t num_bytes = 0;
  double stall_s = 0;
};

/// Called by curl about once a second; not 0 ends the transfer.
int on_progress(void* watch, curl_off_t, curl_off_t now, curl_off_t, curl_off_t) {
  auto& w = *static_cast<StallWatch*>(watch);
  if (now != w.num_bytes) {
    w.num_bytes = now;
    w.since_bytes.restart();
  }
  return w.since_bytes.seconds() > w.stall_s ? 1 : 0;
}

HttpOutcome outcome_of(CURLcode code) {
  switch (code) {
    case CURLE_OK: return HttpOutcome::DONE;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT: return HttpOutcome::UNREACHABLE;  // of the connection alone
    case CURLE_RANGE_ERROR:
    case CURLE_BAD_DOWNLOAD_RESUME: return HttpOutcome::NO_RANGE;
    case CURLE_HTTP_RETURNED_ERROR:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WRITE_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION: return HttpOutcome::REFUSED;
    default: return HttpOutcome::INTERRUPTED;
  }
}

/// An easy handle, cleaned up.
class Handle {
 public:
  Handle() : handle_(curl().init()) { TR_ASSERT(handle_ != nullptr); }
  ~Handle() { curl().cleanup(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  template <typename T>
  void set(CURLoption option, T value) {
    const CURLcode code = curl().setopt(handle_, option, value);
    if (code != CURLE_OK) {
      throw_as<Unsupported>("download: libcurl refuses option {} ({})", int(option),
                            curl().strerror(code));
    }
  }
  CURLcode perform() { return curl().perform(handle_); }

 private:
  CURL* handle_;
};

}  // namespace

HttpResult http_get(const HttpRequest& request, const Sink& sink) {
  Handle handle;
  char reason[CURL_ERROR_SIZE] = "";
  handle.set(CURLOPT_URL, request.url.c_str());
  handle.set(CURLOPT_ERRORBUFFER, static_cast<char*>(reason));
  handle.set(CURLOPT_WRITEFUNCTION, &on_body);
  handle.set(CURLOPT_WRITEDATA, const_cast<void*>(static_cast<const void*>(&sink)));
  handle.set(CURLOPT_FAILONERROR, 1L);
  handle.set(CURLOPT_FOLLOWLOCATION, 1L);
  handle.set(CURLOPT_MAXREDIRS, 5L);
  handle.set(CURLOPT_NOSIGNAL, 1L);  // time-outs must not use signals: other threads run
  handle.set(CURLOPT_CONNECTTIMEOUT_MS, long(std::lround(request.connect_timeout_s * 1e3)));
  StallWatch watch{.stall_s = request.stall_s};
  handle.set(CURLOPT_NOPROGRESS, 0L);
  handle.set(CURLOPT_XFERINFOFUNCTION, &on_progress);
  handle.set(CURLOPT_XFERINFODATA, static_cast<void*>(&watch));
  handle.set(CURLOPT_USERAGENT, "renaissance");
  handle.set(CURLOPT_RESUME_FROM_LARGE, curl_off_t(request.resume_from));
  const CURLcode code = handle.perform();
  if (code == CURLE_OK) return {};
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return {HttpOutcome::INTERRUPTED,
            fmt::format("{}: no byte came for {} s", request.url, request.stall_s)};
  }
  const std::string text = reason[0] != '\0' ? reason : curl().strerror(code);
  return {outcome_of(code), fmt::format("{}: {}", request.url, text)};
}

}  // namespace tr::data
