// SPDX-License-Identifier: Apache-2.0
#include "graph/unknown_op.h"

#include <fmt/format.h>

#include "core/nearest_name.h"
#include "graph/op_def.h"

namespace tr {

namespace {

/// "batchnorm" of "batch_norm" and "BatchNorm2d".
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '_') result += c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  }
  const std::size_t size = result.size();
  if (size > 2 && result[size - 1] == 'd' && result[size - 2] >= '1' && result[size - 2] <= '3')
    result.resize(size - 2);
  return result;
}

/// Whether the definition says that it is PyTorch's function of this plain name.
bool is_of_torch(const OpDef& def, const std::string& name) {
  constexpr std::string_view kPrefix = "torch.nn.functional.";
  const std::size_t at = def.doc.find(kPrefix);
  if (at == std::string::npos) return false;
  const std::string_view rest = std::string_view(def.doc).substr(at + kPrefix.size());
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  return plain(rest.substr(0, rest.find_first_not_of(kLetters))) == name;
}

}  // namespace

std::string unknown_op_message(std::string_view name, std::vector<std::string> others) {
  const OpRegistry& registry = OpRegistry::instance();
  const std::string wanted = plain(name);
  std::string torchs;  // the shortest name: others are parts or fusions of it
  for (const std::string& op : registry.names()) {
    const OpDef& def = *registry.find(op);
    if (!def.gradient) continue;
    others.push_back(op);
    if (is_of_torch(def, wanted) && (torchs.empty() || op.size() < torchs.size())) torchs = op;
  }
  if (torchs.empty()) return unknown_name_message("op", name, others);
  return fmt::format("op: unknown name \"{}\"; PyTorch's is \"{}\" here", name, torchs);
}

}  // namespace tr
