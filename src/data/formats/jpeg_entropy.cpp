// SPDX-License-Identifier: Apache-2.0
#include "data/formats/jpeg_entropy.h"

#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <dlfcn.h>

#include <algorithm>
#include <optional>
#include <span>

namespace tr::data {
namespace {

/// How libjpeg's entropy decoder begins, in all its versions from 6b on. jpeglib.h names the type
/// and the pointer to it, not what is in it.
struct EntropyHead {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

const void* library_of(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 ? info.dli_fbase : nullptr;
}

/// Both functions are libjpeg's own: the layout is the one expected.
bool is_entropy_head(const EntropyHead& head, const jpeg_error_mgr& libjpeg) {
  const void* library = library_of(reinterpret_cast<const void*>(libjpeg.format_message));
  return library != nullptr && head.start_pass != nullptr && head.decode_mcu != nullptr &&
         library_of(reinterpret_cast<const void*>(head.start_pass)) == library &&
         library_of(reinterpret_cast<const void*>(head.decode_mcu)) == library;
}

/// In the place of libjpeg's: the next MCU through BaselineScan. What that does not take leaves the
/// decompression as an error.
boolean decode_mcu(j_decompress_ptr codec, JBLOCKROW* mcu) {
  JpegClient& client = *static_cast<JpegClient*>(codec->client_data);
  std::int16_t* blocks[ScanLayout::kMostBlocks];
  for (int b = 0; mcu != nullptr && b < codec->blocks_in_MCU; ++b) blocks[b] = mcu[b][0];
  if (!client.scan.decode_mcu(mcu != nullptr ? blocks : nullptr)) {
    client.errors.raise("unusual data");
  }
  if (client.scan.is_done()) {  // libjpeg goes on at the marker behind the scan
    const std::size_t bytes = client.scan.position();
    codec->src->next_input_byte += bytes;
    codec->src->bytes_in_buffer -= bytes;
  }
  return TRUE;
}

HuffmanSpec huffman_spec(const JHUFF_TBL& table) {
  HuffmanSpec spec;
  std::copy_n(table.bits, spec.counts.size(), spec.counts.begin());
  std::copy_n(table.huffval, spec.symbols.size(), spec.symbols.begin());
  return spec;
}

/// The scan that is about to be read; nullopt if it is none of those that BaselineScan takes.
std::optional<ScanLayout> baseline_layout(const jpeg_decompress_struct& codec) {
  if (codec.progressive_mode || codec.arith_code || codec.data_precision != 8 ||
      codec.comps_in_scan != codec.num_components ||
      codec.blocks_in_MCU > ScanLayout::kMostBlocks) {
    return std::nullopt;
  }
  ScanLayout layout{.num_blocks = codec.blocks_in_MCU,
                    .num_components = codec.comps_in_scan,
                    .restart_interval = codec.restart_interval,
                    .num_mcus = std::int64_t(codec.MCUs_per_row) * codec.MCU_rows_in_scan,
                    .mcus_per_row = std::int64_t(codec.MCUs_per_row)};
  for (std::size_t b = 0; b < std::size_t(codec.blocks_in_MCU); ++b) {
    layout.component[b] = std::uint8_t(codec.MCU_membership[b]);
  }
  for (std::size_t c = 0; c < std::size_t(codec.comps_in_scan); ++c) {
    const jpeg_component_info& component = *codec.cur_comp_info[c];
    const JHUFF_TBL* dc = codec.dc_huff_tbl_ptrs[component.dc_tbl_no];
    const JHUFF_TBL* ac = codec.ac_huff_tbl_ptrs[component.ac_tbl_no];
    if (dc == nullptr || ac == nullptr) return std::nullopt;
    layout.dc[c] = huffman_spec(*dc);
    layout.ac[c] = huffman_spec(*ac);
  }
  return layout;
}

}  // namespace

bool take_over_entropy(jpeg_decompress_struct& codec) {
  auto* head = reinterpret_cast<EntropyHead*>(codec.entropy);
  if (head == nullptr || !is_entropy_head(*head, *codec.err)) return false;
  const std::optional<ScanLayout> layout = baseline_layout(codec);
  const std::span data(reinterpret_cast<const std::byte*>(codec.src->next_input_byte),
                       codec.src->bytes_in_buffer);
  if (!layout || !static_cast<JpegClient*>(codec.client_data)->scan.begin(data, *layout)) {
    return false;
  }
  head->decode_mcu = decode_mcu;
  return true;
}

void expect_rows(jpeg_decompress_struct& codec, unsigned end) {
  const unsigned blocks = codec.comps_in_scan > 1 ? unsigned(codec.max_v_samp_factor) : 1;
  const unsigned mcu_height = blocks * unsigned(codec.min_DCT_scaled_size);
  static_cast<JpegClient*>(codec.client_data)->scan.expect_rows((end - 1) / mcu_height);
}

void pass_over_columns(jpeg_decompress_struct& codec, unsigned column, unsigned width) {
  // An MCU of a single component is one block, else it is as wide as the blocks of the widest one.
  const unsigned blocks = codec.comps_in_scan > 1 ? unsigned(codec.max_h_samp_factor) : 1;
  const unsigned mcu_width = blocks * unsigned(codec.min_DCT_scaled_size);
  static_cast<JpegClient*>(codec.client_data)
      ->scan.keep_columns(column / mcu_width, (column + width - 1) / mcu_width);
}

}  // namespace tr::data
