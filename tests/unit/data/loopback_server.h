// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tr::test {

/// An HTTP server on 127.0.0.1 that serves one body under several kinds of misbehaviour. The first
/// part of the path picks one:
///   /good/     the body, by Range too          /missing/  404
///   /bad/      a body of the same length, one byte off
///   /cut/      closes after half of it, once; resumes after that
///   /norange/  as /cut/, but answers a Range with the whole body
///   /stall/    half of it, then silence
class LoopbackServer {
 public:
  explicit LoopbackServer(std::string body) : body_(std::move(body)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (listener_ < 0 || bind(listener_, raw, length) != 0 || listen(listener_, 8) != 0 ||
        getsockname(listener_, raw, &length) != 0) {
      throw std::runtime_error("no loopback socket");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LoopbackServer() {
    shutdown(listener_, SHUT_RDWR);  // wakes accept()
    thread_.join();
    close(listener_);
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string url(const std::string& kind) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + kind;
  }
  /// "/cut/file 500": path and first byte of every request.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (;;) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      answer(client);
      close(client);
    }
  }

  void answer(int client) {
    std::string request;
    char bytes[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = recv(client, bytes, sizeof bytes, 0);
      if (count <= 0) return;
      request.append(bytes, std::size_t(count));
    }
    const std::string path = request.substr(4, request.find(' ', 4) - 4);
    const std::size_t range = request.find("Range: bytes=");
    const std::size_t start =
        range == std::string::npos ? 0 : std::stoull(request.substr(range + 13));
    int times = 0;
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(path + " " + std::to_string(start));
      for (const std::string& r : requests_) times += r.substr(0, r.find(' ')) == path;
    }
    respond(client, path.substr(1, path.find('/', 1) - 1), start, times);
  }

  void respond(int client, const std::string& kind, std::size_t start, int times) {
    if (kind == "missing") {
      send_text(client, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      return;
    }
    if (kind == "norange") start = 0;
    if (start >= body_.size()) {
      send_text(
          client,
          "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      return;
    }
    std::string body = body_.substr(start);
    if (kind == "bad") body[body.size() / 2] = char(body[body.size() / 2] ^ 1);
    std::string head = start > 0
                           ? "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " +
                                 std::to_string(start) + "-" + std::to_string(body_.size() - 1) +
                                 "/" + std::to_string(body_.size()) + "\r\n"
                           : "HTTP/1.1 200 OK\r\n";
    head += "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n";
    const bool broken = kind == "stall" || ((kind == "cut" || kind == "norange") && times == 1);
    send_text(client, head + (broken ? body.substr(0, body.size() / 2) : body));
    char byte;
    if (kind == "stall") recv(client, &byte, 1, 0);  // until the client gives up
  }

  static void send_text(int client, const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = send(client, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return;
      done += std::size_t(count);
    }
  }

  std::string body_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace tr::test
