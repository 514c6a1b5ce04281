// SPDX-License-Identifier: Apache-2.0
#include "renaissance/tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/input_file.h"
#include "core/nearest_name.h"
#include "tensor/safetensors_format.h"

namespace tr {
namespace {

std::vector<NamedTensor>::const_iterator find(const SafetensorsFile& file,
                                              const std::string& name) {
  return std::find_if(file.tensors.begin(), file.tensors.end(),
                      [&](const NamedTensor& t) { return t.name == name; });
}

/// Builds the tensors of a header; read(offset in the data, bytes to fill) brings each one's bytes.
template <typename Read>
SafetensorsFile materialise(SafetensorsHeader header, std::string_view source, Read read) {
  SafetensorsFile file;
  file.metadata = std::move(header.metadata);
  for (SafetensorsEntry& entry : header.entries) {
    Tensor tensor(entry.type.shape, entry.type.dtype);
    auto* bytes = static_cast<std::byte*>(tensor.raw());
    read(entry.begin, std::span(bytes, tensor.num_bytes()));
    if (entry.type.dtype == DType::BOOL) {
      const auto* bad = std::find_if(bytes, bytes + tensor.num_bytes(),
                                     [](std::byte b) { return b > std::byte{1}; });
      if (bad != bytes + tensor.num_bytes()) {
        throw_as<DataError>("{}: element {} of the BOOL tensor \"{}\" is {}, expected 0 or 1",
                            source, bad - bytes, entry.name, int(*bad));
      }
    }
    file.tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  return file;
}

}  // namespace

const Tensor& SafetensorsFile::at(const std::string& name) const {
  const auto found = find(*this, name);
  if (found != tensors.end()) return found->tensor;
  std::vector<std::string> known;
  for (const NamedTensor& t : tensors) known.push_back(t.name);
  throw_as<InvalidArgument>("{}", unknown_name_message("safetensors tensor", name, known));
}

bool SafetensorsFile::contains(const std::string& name) const {
  return find(*this, name) != tensors.end();
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, std::string_view source) {
  const std::uint64_t header_bytes = safetensors_header_bytes(bytes, bytes.size(), source);
  const auto json = bytes.subspan(kSafetensorsPrefixBytes, header_bytes);
  const auto data = bytes.subspan(kSafetensorsPrefixBytes + header_bytes);
  SafetensorsHeader header = parse_safetensors_header(
      {reinterpret_cast<const char*>(json.data()), json.size()}, data.size(), source);
  return materialise(std::move(header), source,
                     [&](std::uint64_t offset, std::span<std::byte> out) {
                       std::copy_n(data.begin() + std::ptrdiff_t(offset), out.size(), out.begin());
                     });
}

SafetensorsFile load_safetensors(const std::string& path) {
  const InputFile file(path);
  std::array<std::byte, kSafetensorsPrefixBytes> prefix{};
  if (file.num_bytes() >= prefix.size()) file.read(0, prefix);
  const std::uint64_t header_bytes = safetensors_header_bytes(prefix, file.num_bytes(), path);
  std::string json(std::size_t(header_bytes), '\0');
  file.read(kSafetensorsPrefixBytes, std::as_writable_bytes(std::span(json.data(), json.size())));
  const std::uint64_t data_begin = kSafetensorsPrefixBytes + header_bytes;
  SafetensorsHeader header = parse_safetensors_header(json, file.num_bytes() - data_begin, path);
  return materialise(std::move(header), path, [&](std::uint64_t offset, std::span<std::byte> out) {
    file.read(data_begin + offset, out);
  });
}

void save_safetensors(const std::string& path, const SafetensorsFile& file) {
  const std::string header = safetensors_header_text(file);
  AtomicFile out(path);
  out.write(header);
  for (const auto& [name, tensor] : file.tensors) {
    out.write(std::span(static_cast<const std::byte*>(tensor.raw()), tensor.num_bytes()));
  }
  out.commit();
}

}  // namespace tr
