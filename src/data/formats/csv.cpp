// SPDX-License-Identifier: Apache-2.0
#include "data/formats/csv.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "core/check.h"
#include "core/printable.h"

namespace tr::data {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& who) : text_(text), who_(who) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  bool at_end() const { return at_ >= text_.size(); }
  std::int64_t line() const { return line_; }

  /// The fields of the next row; empty for an empty line.
  std::vector<std::string> row() {
    std::vector<std::string> fields;
    if (end_of_line()) return fields;
    for (;;) {
      fields.push_back(field());
      if (at_end() || end_of_line()) return fields;
      ++at_;  // the comma
    }
  }

 private:
  [[noreturn]] void fail(std::int64_t line, std::string_view what) const {
    throw_as<DataError>("{}: line {}: {}", who_, line, what);
  }

  /// Takes LF, CR LF or the text's end.
  bool end_of_line() {
    if (at_end()) return true;
    const std::size_t skip = text_.substr(at_).starts_with("\r\n") ? 2 : text_[at_] == '\n' ? 1 : 0;
    at_ += skip;
    line_ += skip > 0 ? 1 : 0;
    return skip > 0;
  }

  bool at_border() const {
    return at_end() || text_[at_] == ',' || text_[at_] == '\n' ||
           text_.substr(at_).starts_with("\r\n");
  }

  std::string field() {
    if (at_end() || text_[at_] != '"') return plain_field();
    const std::int64_t begin = line_;
    std::string value;
    for (++at_;; ++at_) {
      if (at_end()) fail(begin, "the quoted field that begins here does not end");
      if (text_[at_] == '"' && !text_.substr(at_ + 1).starts_with('"')) break;
      if (text_[at_] == '"') ++at_;
      if (text_[at_] == '\n') ++line_;
      value += checked(text_[at_]);
    }
    ++at_;
    if (!at_border()) fail(line_, "text follows the closing quote of a field");
    return value;
  }

  std::string plain_field() {
    std::string value;
    for (; !at_border(); ++at_) {
      if (text_[at_] == '"') fail(line_, "a quote stands inside a field that is not quoted");
      if (text_[at_] == '\r') {
        fail(line_, "a carriage return stands alone, expected lines that end with LF or CR LF");
      }
      value += checked(text_[at_]);
    }
    return value;
  }

  char checked(char c) const {
    if (c == '\0') fail(line_, "there is a NUL byte; the file is no text");
    return c;
  }

  std::string_view text_;
  const std::string& who_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return text;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// True for the heading of a list. @throws DataError  for one of other columns: as a sample it
/// would make a class of its own.
bool is_heading(const std::vector<std::string>& fields, const std::string& who, std::int64_t line) {
  if (fields.size() < 2) return false;
  const std::string first = lower(fields[0]), second = lower(fields[1]);
  if (first == "path" && second == "label") return true;
  const auto labels = {"label"sv, "labels"sv, "class"sv, "target"sv};
  const auto files = {"path"sv, "file"sv, "filename"sv, "file_name"sv, "image"sv, "id"sv};
  if ((is_one_of(first, files) && is_one_of(second, labels)) ||
      (is_one_of(first, labels) && is_one_of(second, files))) {
    throw_as<DataError>("{}: line {}: the heading is \"{},{}\", expected path,label or none", who,
                        line, printable(fields[0]), printable(fields[1]));
  }
  return false;
}

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& who) {
  CsvReader reader(text, who);
  std::vector<CsvRow> rows;
  bool first = true;
  while (!reader.at_end()) {
    const std::int64_t line = reader.line();
    std::vector<std::string> fields = reader.row();
    if (fields.empty()) continue;
    const bool heading = first && is_heading(fields, who, line);
    first = false;
    if (heading) continue;
    if (fields.size() < 2) {
      throw_as<DataError>("{}: line {}: \"{}\" has no comma, expected path,label", who, line,
                          printable(fields[0]));
    }
    if (fields[0].empty() || fields[1].empty()) {
      throw_as<DataError>("{}: line {}: the {} is empty, expected path,label", who, line,
                          fields[0].empty() ? "path" : "label");
    }
    rows.push_back({line, std::move(fields[0]), std::move(fields[1])});
  }
  if (rows.empty()) throw_as<DataError>("{}: there are no samples in it", who);
  return rows;
}

std::string csv_field(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace tr::data
