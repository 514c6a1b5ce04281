// SPDX-License-Identifier: Apache-2.0
#include "data/picture_list.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/check.h"
#include "core/fnv.h"
#include "core/philox.h"

namespace tr::data {
namespace {

/// Place of a picture in the order from which the validation set takes the first ones.
std::uint64_t split_key(std::string_view path, std::uint64_t seed) {
  const Philox4 words = DrawAddress{seed, DrawPurpose::SPLIT, fnv1a64(path), 0}.block(0);
  return std::uint64_t(words.v[0]) << 32 | words.v[1];
}

}  // namespace

std::string PictureList::path_of(std::int64_t id) const {
  return (std::filesystem::path(root) / std::string(paths[id])).string();
}

void split_off_validation(PictureLists& lists, double fraction, std::uint64_t seed) {
  TR_CHECK(fraction > 0 && fraction < 1,
           "the fraction of the validation set is {}, expected more than 0 and less than 1",
           fraction);
  TR_ASSERT(!lists.val);
  const PictureList& all = lists.train;
  std::vector<std::vector<std::pair<std::uint64_t, std::int64_t>>> by_class;
  for (std::int64_t id = 0; id < all.size(); ++id) {
    const auto label = std::size_t(all.labels[std::size_t(id)]);
    if (label >= by_class.size()) by_class.resize(label + 1);
    by_class[label].emplace_back(split_key(all.paths[id], seed), id);
  }
  std::vector<bool> taken(std::size_t(all.size()));
  for (auto& members : by_class) {
    const auto n = std::int64_t(members.size());
    const auto count = std::min(std::int64_t(std::floor(fraction * double(n) + 0.5)), n - 1);
    std::sort(members.begin(), members.end());
    for (std::int64_t i = 0; i < count; ++i)
      taken[std::size_t(members[std::size_t(i)].second)] = true;
  }
  PictureList train{.root = all.root}, val{.root = all.root};
  for (std::int64_t id = 0; id < all.size(); ++id) {
    (taken[std::size_t(id)] ? val : train).add(all.paths[id], all.labels[std::size_t(id)]);
  }
  if (val.size() == 0) {
    throw_as<DataError>(
        "{}: a fraction of {} takes no picture for validation: no class has more than {} pictures, "
        "and each keeps one for training",
        all.root, fraction,
        std::max_element(by_class.begin(), by_class.end(), [](const auto& a, const auto& b) {
          return a.size() < b.size();
        })->size());
  }
  lists.train = std::move(train);
  lists.val = std::move(val);
}

}  // namespace tr::data
