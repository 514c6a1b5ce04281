// SPDX-License-Identifier: Apache-2.0
#include "support/dot_parser.h"

#include <cctype>
#include <stdexcept>

namespace tr::test {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { next(); }

  DotGraph parse() {
    expect("digraph");
    if (token_ != "{") id();
    body(nullptr);
    if (!token_.empty()) fail("something behind the graph");
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::invalid_argument("dot, at byte " + std::to_string(at_) + ": " + what);
  }

  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  /// The next token; empty at the end.
  void next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    token_.clear();
    is_id_ = false;
    if (at_ == text_.size()) return;
    if (text_[at_] == '"') return string();
    if (text_.substr(at_, 2) == "->") {
      token_ = "->";
      at_ += 2;
      return;
    }
    if (!is_word(text_[at_])) {
      token_ = text_[at_++];
      return;
    }
    is_id_ = true;
    const bool number = std::isdigit(static_cast<unsigned char>(text_[at_]));
    while (at_ < text_.size() && is_word(text_[at_])) token_ += text_[at_++];
    for (const char c : token_) {
      if (number && !std::isdigit(static_cast<unsigned char>(c))) fail("an id begins with a digit");
    }
  }

  void string() {
    is_id_ = true;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const bool escaped = text_[at_] == '\\';
      if (escaped && ++at_ == text_.size()) break;
      token_ += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    if (at_ == text_.size()) fail("a string does not end");
    ++at_;
  }

  void expect(std::string_view token) {
    if (token_ != token) fail("another token was expected");
    next();
  }
  std::string id() {
    if (!is_id_) fail("an id was expected");
    std::string name = token_;
    next();
    return name;
  }

  std::map<std::string, std::string> attributes() {
    std::map<std::string, std::string> values;
    expect("[");
    while (token_ != "]") {
      const std::string name = id();
      expect("=");
      values[name] = id();
      if (token_ == "," || token_ == ";") next();
    }
    next();
    return values;
  }

  void body(std::string* label) {
    expect("{");
    while (token_ != "}") {
      statement(label);
      if (token_ == ";") next();
    }
    next();
  }

  void statement(std::string* label) {
    const std::string first = id();
    if (first == "subgraph") {
      if (token_ != "{") id();
      const std::size_t place = graph_.clusters.size();
      graph_.clusters.emplace_back();
      std::string own;
      body(&own);
      graph_.clusters[place] = own;
    } else if (first == "node" || first == "edge" || first == "graph") {
      attributes();
    } else if (token_ == "=") {
      next();
      const std::string value = id();
      if (first == "label" && label != nullptr) *label = value;
    } else if (token_ == "->") {
      next();
      graph_.edges.emplace_back(first, id());
      if (token_ == "[") attributes();
    } else {
      graph_.nodes[first] = token_ == "[" ? attributes()["label"] : first;
    }
    if (token_ != ";" && token_ != "}" && !is_id_) fail("a statement goes on");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string token_;
  bool is_id_ = false;
  DotGraph graph_;
};

}  // namespace

DotGraph parse_dot(std::string_view text) { return Parser(text).parse(); }

}  // namespace tr::test
