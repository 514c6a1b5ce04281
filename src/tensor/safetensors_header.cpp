// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/format.h"
#include "tensor/safetensors_format.h"

namespace tr {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

constexpr std::array<std::pair<DType, std::string_view>, 8> kDTypeNames{{{DType::FP32, "F32"},
                                                                         {DType::FP16, "F16"},
                                                                         {DType::BF16, "BF16"},
                                                                         {DType::UINT8, "U8"},
                                                                         {DType::INT8, "I8"},
                                                                         {DType::INT32, "I32"},
                                                                         {DType::INT64, "I64"},
                                                                         {DType::BOOL, "BOOL"}}};

std::string_view format_name(DType dtype) {
  for (const auto& [value, name] : kDTypeNames) {
    if (value == dtype) return name;
  }
  throw_as<InternalError>("safetensors: dtype {} has no name in the format", dtype);
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 200;
  return fmt::format("\"{}{}\"", text.substr(0, kShown), text.size() > kShown ? "..." : "");
}

/// Receives the header's JSON piece by piece, so that nothing but the expected form is ever built:
/// { "__metadata__": {text: text}, name: {"dtype": text, "shape": [n...], "data_offsets": [n, n]} }
class HeaderReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit HeaderReader(std::string_view source) : source_(source) {}

  bool null() { refuse_value("null"); }
  bool boolean(bool) { refuse_value("a truth value"); }
  bool number_integer(number_integer_t value) { refuse_value(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) { refuse_value("the number " + text); }
  bool binary(binary_t&) { refuse_value("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (place_ != Place::SHAPE && place_ != Place::OFFSETS) {
      refuse_value(fmt::format("the number {}", value));
    }
    if (place_ == Place::SHAPE && value > std::uint64_t(INT64_MAX)) {
      fail(fmt::format("tensor {}: dimension {} is out of range", in_quotes(entry_.name), value));
    }
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) {
    if (place_ == Place::METADATA) {
      header_.metadata[key_] = std::move(value);
    } else if (place_ == Place::ENTRY && key_ == "dtype") {
      const auto known = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                      [&](const auto& pair) { return pair.second == value; });
      if (known == kDTypeNames.end()) {
        fail(fmt::format(
            "tensor {} has dtype {}, which this library cannot hold (it can: F32, F16, BF16, "
            "U8, I8, I32, I64, BOOL)",
            in_quotes(entry_.name), in_quotes(value)));
      }
      entry_.type.dtype = known->first;
    } else {
      refuse_value("the text " + in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t) {
    switch (place_) {
      case Place::START: place_ = Place::ROOT; return true;
      case Place::ROOT:
        place_ = key_ == kMetadataKey ? Place::METADATA : Place::ENTRY;
        entry_ = {};
        entry_.name = key_;
        fields_.clear();
        return true;
      default: refuse_value("an object");
    }
  }

  bool key(string_t& name) {
    std::set<std::string>& seen = place_ == Place::ROOT       ? names_
                                  : place_ == Place::METADATA ? metadata_keys_
                                                              : fields_;
    if (!seen.insert(name).second)
      fail(fmt::format("key {} stands twice{}", in_quotes(name), within()));
    if (place_ == Place::ENTRY && name != "dtype" && name != "shape" && name != "data_offsets") {
      fail(
          fmt::format("tensor {} has the unknown key {}", in_quotes(entry_.name), in_quotes(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool end_object() {
    if (place_ == Place::ENTRY) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (fields_.count(field) == 0) {
          fail(fmt::format("tensor {} has no key \"{}\"", in_quotes(entry_.name), field));
        }
      }
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::ROOT ? Place::END : Place::ROOT;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::ENTRY || key_ == "dtype") refuse_value("a list");
    place_ = key_ == "shape" ? Place::SHAPE : Place::OFFSETS;
    numbers_.clear();
    return true;
  }

  bool end_array() {
    if (place_ == Place::SHAPE) {
      set_shape();
    } else {
      if (numbers_.size() != 2) {
        fail(fmt::format("tensor {} has {} data_offsets, expected begin and end",
                         in_quotes(entry_.name), numbers_.size()));
      }
      entry_.begin = numbers_[0];
      entry_.end = numbers_[1];
    }
    place_ = Place::ENTRY;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    fail(fmt::format("it is not valid JSON at byte {}", position));
  }

  SafetensorsHeader take() { return std::move(header_); }

  [[noreturn]] void fail(const std::string& what) const {
    throw_as<DataError>("{}: bad safetensors header: {}", source_, what);
  }

 private:
  enum class Place { START, ROOT, METADATA, ENTRY, SHAPE, OFFSETS, END };

  std::string within() const {
    if (place_ == Place::METADATA) return " in __metadata__";
    return place_ == Place::ENTRY ? fmt::format(" in tensor {}", in_quotes(entry_.name)) : "";
  }

  [[noreturn]] void refuse_value(std::string_view what) const {
    if (place_ == Place::START) fail(fmt::format("it is {}, expected an object", what));
    fail(fmt::format("{} is {}, which does not belong there{}", in_quotes(key_), what, within()));
  }

  void set_shape() {
    std::vector<std::int64_t> dims(numbers_.begin(), numbers_.end());
    try {
      entry_.type.shape = Shape(std::span<const std::int64_t>(dims));
    } catch (const InvalidArgument& e) {
      fail(fmt::format("tensor {}: {}", in_quotes(entry_.name), e.what()));
    }
  }

  std::string_view source_;
  SafetensorsHeader header_;
  Place place_ = Place::START;
  std::string key_;
  SafetensorsEntry entry_;
  std::vector<std::uint64_t> numbers_;
  std::set<std::string> names_, metadata_keys_, fields_;
};

void check_places(const HeaderReader& reader, std::vector<SafetensorsEntry>& entries,
                  std::uint64_t data_bytes) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != expected || entry.end < entry.begin) {
      reader.fail(fmt::format(
          "tensor {} has data_offsets [{}, {}], expected them to begin at {}, where the "
          "one before ends",
          in_quotes(entry.name), entry.begin, entry.end, expected));
    }
    const auto element_bytes = std::uint64_t(size_of(entry.type.dtype));
    const auto num_elements = std::uint64_t(entry.type.shape.num_elements());  // at most 2^47
    const std::uint64_t length = entry.end - entry.begin;
    if (length % element_bytes != 0 || length / element_bytes != num_elements) {
      reader.fail(fmt::format("tensor {} has {} bytes of data, which is not the size of {}",
                              in_quotes(entry.name), length, entry.type));
    }
    expected = entry.end;
  }
  if (expected != data_bytes) {
    reader.fail(
        fmt::format("its tensors end at byte {} of the data, but {} bytes follow the header",
                    expected, data_bytes));
  }
}

}  // namespace

std::uint64_t safetensors_header_bytes(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                                       std::string_view source) {
  if (file_bytes < kSafetensorsPrefixBytes) {
    throw_as<DataError>("{}: has {} bytes, too few for a safetensors file", source, file_bytes);
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kSafetensorsPrefixBytes; ++i) {
    length |= std::uint64_t(prefix[i]) << (8 * i);
  }
  if (length > kSafetensorsMaxHeaderBytes) {
    throw_as<DataError>("{}: claims a safetensors header of {} bytes, at most {} are allowed",
                        source, length, kSafetensorsMaxHeaderBytes);
  }
  if (length > file_bytes - kSafetensorsPrefixBytes) {
    throw_as<DataError>("{}: claims a safetensors header of {} bytes, but has only {} bytes in all",
                        source, length, file_bytes);
  }
  return length;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view source) {
  HeaderReader reader(source);
  if (json.empty() || json.front() != '{') reader.fail("it does not begin with \"{\"");
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = reader.take();
  check_places(reader, header.entries, data_bytes);
  return header;
}

std::string safetensors_header_text(const SafetensorsFile& file) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) root[std::string(kMetadataKey)] = file.metadata;
  std::set<std::string_view> names;
  std::uint64_t begin = 0;
  for (const auto& [name, tensor] : file.tensors) {
    TR_CHECK(name != kMetadataKey,
             "safetensors: a tensor cannot be named \"{}\", the format reserves it", name);
    TR_CHECK(names.insert(name).second, "safetensors: two tensors are named \"{}\"", name);
    const std::uint64_t end = begin + tensor.num_bytes();
    const auto dims = tensor.shape().dims();
    root.push_back({name,
                    {{"dtype", format_name(tensor.dtype())},
                     {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                     {"data_offsets", {begin, end}}}});
    begin = end;
  }
  std::string json;
  try {
    json = root.dump();
  } catch (const nlohmann::json::type_error& e) {
    throw_as<InvalidArgument>("safetensors: a name or a metadata text is not UTF-8: {}", e.what());
  }
  json.resize((json.size() + 7) / 8 * 8, ' ');  // tensors begin at a multiple of 8
  TR_CHECK(json.size() <= kSafetensorsMaxHeaderBytes,
           "safetensors: the header has {} bytes, at most {} fit", json.size(),
           kSafetensorsMaxHeaderBytes);
  std::string text(kSafetensorsPrefixBytes, '\0');
  for (std::size_t i = 0; i < kSafetensorsPrefixBytes; ++i) {
    text[i] = char(std::uint64_t(json.size()) >> (8 * i));
  }
  return text + json;
}

}  // namespace tr
