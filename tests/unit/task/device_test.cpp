// SPDX-License-Identifier: Apache-2.0
// Which device a setting means on which machine, and what is said about it. The machine's GPUs are
// made up: nothing here needs one.
#include "task/device.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "support/throws.h"
#include "task/device_report.h"
#include "toy.h"

namespace tr {
namespace {

using test::throws;

DeviceBackend machine_with(int num_gpus) {
  DeviceBackend backend;
  backend.built_for = "CUDA 13.0, sm_90";
  backend.devices = [num_gpus] {
    std::vector<DeviceInfo> all;
    for (int i = 0; i < num_gpus; ++i) {
      all.push_back({i, "Toy " + std::to_string(i), "sm_90", std::int64_t{2} << 30, 16});
    }
    return all;
  };
  backend.why_none = [num_gpus] {
    return std::string(num_gpus > 0 ? "" : "there is no NVIDIA driver");
  };
  backend.libraries = [] {
    return std::vector<LibraryInfo>{{"cuToy", "13.1.0", "/lib/libcutoy.so"},
                                    {"cuMissing", "", "libcumissing.so.13 is nowhere"}};
  };
  backend.make_executor = [](const CompileResult&,
                             const ExecutorOptions&) -> std::unique_ptr<Executor> {
    throw_as<InternalError>("the toy GPU computes nothing");
  };
  return backend;
}

ResolvedDevice resolve(const std::string& setting, const DeviceBackend& backend) {
  return resolve_device(DeviceSetting::parse(setting), &backend);
}

TEST(ResolveDevice, TheCpuIsTakenWithoutAWord) {
  const ResolvedDevice device = resolve("cpu", machine_with(2));
  EXPECT_EQ(device.kind, DeviceKind::CPU);
  EXPECT_EQ(device.announcement, "");
}

TEST(ResolveDevice, WithoutAGpuTheCpuIsAnnouncedWithTheReason) {
  const DeviceBackend no_gpu = machine_with(0);
  const ResolvedDevice none = resolve_device({}, &no_gpu);
  EXPECT_EQ(none.kind, DeviceKind::CPU);
  EXPECT_EQ(none.announcement,
            "no device is set: computing on the CPU (there is no NVIDIA driver)");
  EXPECT_EQ(resolve_device({}, nullptr).announcement,
            "no device is set: computing on the CPU (this build has no CUDA backend)");
}

TEST(ResolveDevice, AMissingGpuIsAnErrorWithARemedy) {
  EXPECT_TRUE(throws<Unsupported>([] { resolve("cuda", machine_with(0)); },
                                  "device cuda is asked for, but there is no NVIDIA driver; at a "
                                  "shell say --device cpu; in a program call use_cpu(), or run it "
                                  "with TR_OVERRIDE"));
  EXPECT_TRUE(throws<Unsupported>(
      [] { resolve_device(DeviceSetting::parse("cuda:1"), nullptr); },
      "device cuda:1 is asked for, but this build has no CUDA backend; at a shell"));
}

TEST(ResolveDevice, TheOnlyGpuIsTakenAndAnnouncedIfNobodyAsked) {
  const DeviceBackend one = machine_with(1);
  const ResolvedDevice unset = resolve_device({}, &one);
  EXPECT_EQ(unset.kind, DeviceKind::CUDA);
  EXPECT_EQ(unset.gpus, std::vector<int>{0});
  EXPECT_EQ(unset.announcement, "no device is set: computing on GPU 0, Toy 0");
  EXPECT_EQ(resolve("cuda", one).announcement, "");
}

TEST(ResolveDevice, OfSeveralGpusTheFirstComputesAndTheOthersAreCounted) {
  const DeviceBackend four = machine_with(4);
  EXPECT_EQ(resolve_device({}, &four).announcement,
            "no device is set: computing on GPU 0, Toy 0; 3 more stay idle");
  EXPECT_EQ(resolve("cuda", four).announcement,
            "all GPUs are asked for: computing on GPU 0, Toy 0; 3 more stay idle");
  const ResolvedDevice third = resolve("cuda:2", four);
  EXPECT_EQ(third.gpus, std::vector<int>{2});
  EXPECT_EQ(third.announcement, "");
}

TEST(ResolveDevice, SeveralNamedGpusAndUnknownOnesAreRefused) {
  const DeviceBackend two = machine_with(2);
  EXPECT_TRUE(throws<Unsupported>(
      [&] { resolve("cuda:0,1", two); },
      "device cuda:0,1 asks for 2 GPUs, but training on several is not built yet; name one"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { resolve("cuda:7", two); },
                                      "device cuda:7: there is no GPU 7, expected 0 to 1"));
}

TEST(ResolveDevice, TheRegisteredBackendIsTheOneRegisteredLast) {
  const DeviceBackend* const former = find_backend(DeviceKind::CUDA);
  {
    const DeviceBackendRegistration toy(machine_with(3));
    EXPECT_EQ(resolve_device({}).announcement,
              "no device is set: computing on GPU 0, Toy 0; 2 more stay idle");
  }
  EXPECT_EQ(find_backend(DeviceKind::CUDA), former);
}

TEST(ResolveDevice, RanksOnAGpuAreRefusedByCompile) {
  const toy::Quiet quiet;
  const DeviceBackendRegistration registered(machine_with(1));
  Session session = toy::make_session();
  session.global = GlobalSetting();
  session.global.global_batch_size(20).cpu_ranks(2);
  DeepLearningTask task = toy::make_task(session, toy::make_data(), 1);
  EXPECT_TRUE(throws<Unsupported>(
      [&] { task.compile(CompileInfo::NONE); },
      "cpu_ranks is 2 and the run would compute on GPU 0: ranks as threads exist on the CPU only; "
      "at a shell say --device cpu; in a program call use_cpu()"));
  session.global.use_cpu();
  toy::make_task(session, toy::make_data(), 1).compile(CompileInfo::NONE);
}

TEST(GpuReport, NamesDevicesAndLibraries) {
  const DeviceBackend two = machine_with(2);
  const GpuReport report(&two);
  EXPECT_EQ(report.text(),
            "cuda   built for CUDA 13.0, sm_90\n"
            "gpu 0  Toy 0, sm_90, 2.00 GiB, 16 multiprocessors\n"
            "gpu 1  Toy 1, sm_90, 2.00 GiB, 16 multiprocessors\n"
            "cuToy          13.1.0, /lib/libcutoy.so\n"
            "cuMissing      not found: libcumissing.so.13 is nowhere\n");
  const nlohmann::json json = report.json();
  EXPECT_EQ(json.at("no_gpu"), "");
  EXPECT_EQ(json.at("libraries")[0].at("version"), "13.1.0");
  EXPECT_EQ(json.at("libraries")[1].at("version"), "");
  const nlohmann::json devices = report.devices_json();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].at("index"), 1);
  EXPECT_EQ(devices[1].at("memory_bytes"), std::int64_t{2} << 30);
}

TEST(GpuReport, SaysWhyThereIsNoGpu) {
  const DeviceBackend none = machine_with(0);
  EXPECT_TRUE(GpuReport(&none).text().starts_with(
      "cuda   built for CUDA 13.0, sm_90\ngpu    no GPU: there is no NVIDIA driver\ncuToy "))
      << GpuReport(&none).text();
  EXPECT_EQ(GpuReport(&none).json().at("no_gpu"), "there is no NVIDIA driver");
  EXPECT_EQ(GpuReport(nullptr).text(),
            "gpu    no GPU: this build has no CUDA backend (no nvcc was found, or TR_CUDA=OFF)\n");
  EXPECT_EQ(GpuReport(nullptr).json().at("built_for"), "");
  EXPECT_TRUE(GpuReport(nullptr).devices_json().empty());
}

}  // namespace
}  // namespace tr
