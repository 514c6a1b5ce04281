// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/core/dtype.h"
#include "renaissance/core/export.h"
#include "renaissance/core/types.h"
#include "renaissance/data/dataset.h"
#include "renaissance/data/transforms.h"

namespace tr {

/// In what a layer computes under mixed precision, against what its op does by definition.
enum class LayerDType : std::uint8_t { FP32, LOW };

/// Where a task computes. Unset: all GPUs, else the CPU, announced.
struct DeviceSetting {
  enum class Kind : std::uint8_t { UNSET, CPU, CUDA };
  Kind kind = Kind::UNSET;
  std::vector<int> gpus;  // CUDA: physical indices, sorted; empty: every visible one

  /// Reads "cpu", "cuda", "cuda:0" or "cuda:0,2-3". @throws InvalidArgument  any other text.
  TR_API static DeviceSetting parse(const std::string& text);
  /// Reads the list of use_gpu: "0", "0,1", "0-7", "0,2-3". @throws InvalidArgument  naming what is
  /// wrong.
  TR_API static DeviceSetting parse_gpus(const std::string& ids);
  /// "", "cpu", "cuda:0,2".
  TR_API std::string str() const;
};

/// What all parts of a run share. Setters check their own value and return the object; whatever
/// depends on several of them is checked by compile(), which takes a snapshot. Nothing here starts
/// anything.
class TR_API GlobalSetting {
 public:
  /// Devices by physical index, "0", "0,1", "0-7"; without argument every visible one.
  /// @throws InvalidArgument  the list cannot be read. Missing devices are an error of compile(),
  /// never the CPU.
  GlobalSetting& use_gpu(const std::string& ids = "");
  GlobalSetting& use_cpu();
  /// Mixed precision: fp16 with loss scaling, or off.
  GlobalSetting& amp(bool on);
  /// Mixed precision in FP16 (with loss scaling) or BF16 (without). @throws InvalidArgument another
  /// type.
  GlobalSetting& amp(DType low_dtype);
  /// TF32 in fp32 matrix products; on the CPU it has no effect, which compile() says.
  GlobalSetting& use_tf32(bool on = true);
  GlobalSetting& manual_seed(std::uint64_t seed);
  /// Off allows kernels whose results vary between runs; the CPU has none.
  GlobalSetting& deterministic(bool on = true);
  /// Seconds in which compile() may measure on a GPU which engines are fastest (default 10; kept
  /// between runs by tuning_cache); 0: they are taken by rank.
  /// @throws InvalidArgument  s is negative or not finite.
  GlobalSetting& search_seconds(double s);
  /// Where measured choices are kept between runs: "auto", a file of the cache folder
  /// (docs/env.md); "off"; else a file's path. @throws InvalidArgument  it is empty.
  GlobalSetting& tuning_cache(std::string place);
  /// Samples of one optimizer step over all ranks and micro-batches. @throws InvalidArgument  n
  /// < 1.
  GlobalSetting& global_batch_size(std::int64_t n);
  /// Samples of one micro-batch of one rank. @throws InvalidArgument  n < 1.
  GlobalSetting& local_batch_size(std::int64_t n);
  /// Micro-batches whose gradients are summed before one optimizer step. @throws
  /// InvalidArgument  n is not 1 to 65536.
  GlobalSetting& accumulate_steps(int n);
  /// As few micro-batches as fit into memory (memory_limit, or what is free on the device): the
  /// batch that one rank was to take at once is cut into equal parts. compile() decides and records
  /// the number, which a resumed run keeps.
  GlobalSetting& accumulate_auto();
  /// Both resolutions at once: the square or rectangle of pixels that the network sees. @throws
  /// InvalidArgument  a side < 1.
  GlobalSetting& input_resolution(ImageSize size);
  GlobalSetting& train_resolution(ImageSize size);
  GlobalSetting& val_resolution(ImageSize size);
  /// Compute threads of each CPU rank; 0: shared out over the processor's cores. @throws
  /// InvalidArgument  n is not 0 to 1024.
  GlobalSetting& threads(int n);
  /// Ranks as threads of this process, each with an arena of its own. @throws
  /// InvalidArgument  n is not 1 to 256.
  GlobalSetting& cpu_ranks(int n);

  struct Values {
    DeviceSetting device;
    std::optional<DType> low_dtype;  // amp
    bool tf32 = false;
    std::uint64_t seed = 0;
    bool deterministic = true;
    double search_seconds = 10;
    std::string tuning_cache = "auto";
    std::int64_t global_batch_size = 0;  // 0: unset
    std::int64_t local_batch_size = 0;   // 0: unset
    int accumulate_steps = 1;
    bool accumulate_auto = false;    // compile() sets accumulate_steps
    ImageSize train_resolution = 0;  // 0: what the transforms give
    ImageSize val_resolution = 0;
    int threads = 0;
    int cpu_ranks = 1;
  };
  const Values& values() const { return values_; }

 private:
  Values values_;
};

/// Where samples wait for their steps. DEVICE: whole sets stay in the GPU's memory as they are
/// stored and are transformed there, to the same bytes as on the HOST, whose loader feeds batch by
/// batch.
enum class DataPlace : std::uint8_t { AUTO, DEVICE, HOST };

/// Where samples come from and what happens to them on their way to the network.
class TR_API PreprocessorSetting {
 public:
  /// A named set ("mnist", "cifar-10", "folder", "imagenet", "csv", ...: see open_dataset()) at
  /// `path`. Opened by compile().
  PreprocessorSetting& dataset(std::string name, std::string path = "");
  /// Part of each class that validation takes of a set of files without a validation split.
  /// @throws InvalidArgument  outside [0, 1).
  PreprocessorSetting& val_fraction(double fraction);
  /// Seconds that one file of a set of files may take to read; 0: any time.
  /// @throws InvalidArgument  negative, or above a day.
  PreprocessorSetting& read_timeout(double seconds);
  /// What becomes of the orientation that picture files carry; applied by default.
  PreprocessorSetting& exif(ExifPolicy policy);
  /// Decodes only the rows and columns of a picture file that its crop needs (default): the same
  /// pixels.
  PreprocessorSetting& decode_crop_only(bool on = true);
  /// Decodes a JPEG whose crop is shrunk to a third or less at 4/8, 2/8 or 1/8 of its size
  /// (default): faster, and within 3/255 at the mean of what the full decode gives.
  PreprocessorSetting& dct_scaling(bool on = true);
  /// JPEG by the less exact transform and plain chroma upsampling; off by default.
  PreprocessorSetting& fast_dct(bool on = true);
  /// Keeps where rows begin in each JPEG of a set that is cropped at random (default, 656 bytes a
  /// picture): from the second epoch on what lies before and beside a crop need not be decoded. The
  /// same pixels.
  PreprocessorSetting& remember_rows(bool on = true);
  /// Allows compile() to fetch missing files into the folder.
  PreprocessorSetting& download(bool on = true);
  /// Threads that only read samples, ahead of those that transform them. 0: some for a set of
  /// files, none for one in memory. Of all ranks together, as preprocess_workers.
  /// @throws InvalidArgument  n is not 0 to 1024.
  PreprocessorSetting& load_workers(int n);
  /// Threads that transform samples, and read them where no thread is there for that alone. 0:
  /// chosen from the cores. @throws InvalidArgument  n is not 0 to 1024.
  PreprocessorSetting& preprocess_workers(int n);
  /// Binds each of these threads to a core of its own.
  PreprocessorSetting& cpu_binding(bool on = true);
  PreprocessorSetting& normalization(NormMode mode);
  /// y = (x / 255 - mean[c]) / std[c]. @throws InvalidArgument  lengths differ, or a std is not
  /// positive.
  PreprocessorSetting& normalization(std::vector<float> mean, std::vector<float> std);
  /// Steps in the order in which they are applied; replaces former ones.
  template <typename... Steps>
  PreprocessorSetting& train_transforms(const Steps&... steps) {
    return set_train_transforms({Transform(steps)...});
  }
  template <typename... Steps>
  PreprocessorSetting& val_transforms(const Steps&... steps) {
    return set_val_transforms({Transform(steps)...});
  }
  PreprocessorSetting& set_train_transforms(std::vector<Transform> steps);
  PreprocessorSetting& set_val_transforms(std::vector<Transform> steps);
  /// 1 or 3; normally known from the set. @throws InvalidArgument  another number.
  PreprocessorSetting& color_channels(int n);
  PreprocessorSetting& using_dts_format(bool on, int level = 0);  // on: compile() refuses it
  /// Reads the whole set into memory before the first step.
  PreprocessorSetting& fully_mode(bool on = true);
  /// Keeps the processed validation set in memory; its transforms must not draw.
  PreprocessorSetting& using_cpvs(bool on = true);
  /// Where samples wait for their steps. AUTO: in the device's memory if they fit, else on the
  /// host.
  PreprocessorSetting& data_place(DataPlace place);
  /// Where the last pass of images from the loader runs (mirror, normalise, erase, convert), to the
  /// same bytes: HOST, by the loader's threads; DEVICE, by a node of the graph, so that pixels are
  /// copied as bytes. AUTO: on a GPU whichever takes less time, measured by compile(); else HOST.
  PreprocessorSetting& normalize_on(DataPlace place);
  PreprocessorSetting& shuffle_train(bool on = true);
  PreprocessorSetting& drop_last(bool on = true);
  PreprocessorSetting& bad_sample_policy(BadSamplePolicy policy);
  /// Samples of the run that may be bad, under SKIP and REPLACE; one more fails the run.
  /// @throws InvalidArgument  negative.
  PreprocessorSetting& bad_sample_limit(std::int64_t samples);
  /// Validates what is set and does nothing else. @throws InvalidArgument  naming the option and
  /// its value.
  void commit() const;

  struct Values {
    std::string dataset_name;
    std::string dataset_path;
    double val_fraction = 0;
    double read_timeout_s = 30;
    ExifPolicy exif = ExifPolicy::APPLY;
    bool decode_crop_only = true, dct_scaling = true, fast_dct = false, remember_rows = true;
    bool download = false;
    int load_workers = 0;
    int preprocess_workers = 0;
    bool cpu_binding = false;
    Normalization normalization;
    std::vector<Transform> train_transforms, val_transforms;
    int color_channels = 0;  // 0: known from the set
    bool dts = false;
    int dts_level = 0;
    bool fully = false;
    bool cpvs = true;
    DataPlace place = DataPlace::AUTO;
    DataPlace normalize_on = DataPlace::AUTO;
    bool shuffle_train = true;
    bool drop_last = false;
    BadSamplePolicy bad_samples = BadSamplePolicy::FAIL;
    std::int64_t bad_sample_limit = 100;
  };
  const Values& values() const { return values_; }

 private:
  Values values_;
};

/// The settings of one or several tasks. A task uses the default session unless it is given
/// another.
struct Session {
  GlobalSetting global;
  PreprocessorSetting preprocessor;
};

/// The session behind GLOBAL_SETTING and PREPROCESSOR_SETTING.
TR_API Session& default_session();
/// Puts every setting of the default session back to its default. Tasks that are compiled keep
/// theirs.
TR_API void reset_session();

}  // namespace tr

#define GLOBAL_SETTING (::tr::default_session().global)
#define PREPROCESSOR_SETTING (::tr::default_session().preprocessor)
