// SPDX-License-Identifier: Apache-2.0
// info: what this build and machine offer.
#include <cstdio>
#include <memory>

#include <zlib.h>

#include "backend/cpu/onednn.h"
#include "command.h"
#include "core/cpu_info.h"
#include "core/env.h"
#include "core/format.h"
#include "task/config.h"
#include "task/device_report.h"

namespace tr::command {

namespace {

std::string keys_markdown() {
  std::string text = "| key | type | default | meaning |\n|---|---|---|---|\n";
  const Config defaults;
  for (const ConfigKey& key : config_keys()) {
    std::string type(key.type);
    for (std::size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2)
      type.insert(at, "\\");
    text += fmt::format("| `{}` | {} | `{}` | {} |\n", key.name, type, key.get(defaults).dump(),
                        key.doc);
  }
  return text;
}

nlohmann::json keys_json() {
  nlohmann::json all = nlohmann::json::array();
  const Config defaults;
  for (const ConfigKey& key : config_keys()) {
    all.push_back({{"key", key.name},
                   {"type", key.type},
                   {"default", key.get(defaults)},
                   {"meaning", key.doc}});
  }
  return all;
}

int run_info(bool keys, const JsonOutput& json) {
  json.probe();
  if (keys) {
    if (!json.to_stdout()) std::fputs(keys_markdown().c_str(), stdout);
    json.write(keys_json());
    return kOk;
  }
  const CpuInfo& cpu = cpu_info();
  const std::string onednn = cpu::onednn_version();  // "oneDNN 2.6.3"
  const nlohmann::json libraries = {
      {"onednn", onednn.substr(onednn.find(' ') + 1)},
      {"fmt",
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"zlib", zlibVersion()},
      {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                    NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"cli11", CLI11_VERSION}};
  const GpuReport gpus(find_backend(DeviceKind::CUDA));
  nlohmann::json devices = {
      {{"kind", "cpu"}, {"name", cpu.model_name}, {"threads", default_num_threads()}}};
  for (const nlohmann::json& gpu : gpus.devices_json()) devices.push_back(gpu);
  const nlohmann::json result = {
      {"version", TR_VERSION},          {"compiler", __VERSION__}, {"devices", devices},
      {"cpu_flags", cpu.flags},         {"cuda", gpus.json()},     {"libraries", libraries},
      {"project_root", project_root()}, {"cache", cache_folder()}};
  std::string text = fmt::format("renaissance {}, built by g++ {}\n", TR_VERSION, __VERSION__);
  text += fmt::format("cpu    {}, {} threads, {}\n", cpu.model_name, default_num_threads(),
                      fmt::join(cpu.flags, " "));
  text += gpus.text();
  for (const auto& [name, version] : libraries.items())
    text += fmt::format("{:<14} {}\n", name, version.get<std::string>());
  text += fmt::format("project root   {}\ncache          {}", project_root(), cache_folder());
  print(json, text);
  json.write(result);
  return kOk;
}

}  // namespace

void add_info(CLI::App& app, int& exit_code) {
  struct InfoArgs {
    bool keys = false;
    JsonOutput json;
  };
  auto args = std::make_shared<InfoArgs>();
  CLI::App* command = app.add_subcommand("info", "Devices, libraries and versions.");
  command->add_flag("--keys", args->keys, "the table of configuration keys instead");
  args->json.add_to(*command);
  command->callback([args, &exit_code] { exit_code = run_info(args->keys, args->json); });
}

}  // namespace tr::command
