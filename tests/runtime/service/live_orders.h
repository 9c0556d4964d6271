// Jobs of every order over one dataset of a live service, and what each of their ranks is given.
#pragma once

#include <functional>

#include "core/order/keys.h"
#include "core/order/position_json.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::live_orders {

constexpr std::uint64_t kRows = 5000;
constexpr std::uint64_t kSeed = 5;

struct Rows {
  Folder folder;
  service::NodeConfig config;
  Rows() : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 4);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  }
  // For a job of this order; two epochs unless a test says otherwise.
  bf_loader_options options(bf_order order) const {
    bf_loader_options made = BF_LOADER_OPTIONS_INIT;
    made.service = config.socket.c_str();
    made.dataset = "rows";
    made.order = order;
    made.batch_samples = 32;
    made.has_shuffle_seed = 1;
    made.shuffle_seed = kSeed;
    made.epochs = 2;
    made.timeout_s = 30;
    return made;
  }
};

struct Sample {
  std::uint64_t key;
  int marks;
  friend bool operator==(const Sample&, const Sample&) = default;
};
using Batch = std::vector<Sample>;
using Epochs = std::map<std::uint32_t, std::vector<Batch>>;

// What a rank was given, and where the job then was.
struct Given {
  Epochs epochs;
  std::uint64_t steps_per_epoch = 0;
  order::KeyRoot root;
  std::string state;
  std::string wrong;
};

using Each = std::function<void(bf_loader*, std::uint64_t)>;

// `each` is called before each batch, with how many came before it.
inline Given read(
    const bf_loader_options& options, std::uint64_t most = UINT64_MAX,
    const Each& each = [](bf_loader*, std::uint64_t) {}) {
  Given given;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    given.wrong = bf_last_error();
    return given;
  }
  bf_status status = BF_OK;
  for (std::uint64_t count = 0; count < most; ++count) {
    each(loader, count);
    bf_batch batch = BF_BATCH_INIT;
    if ((status = bf_loader_next(loader, &batch)) != BF_OK) break;
    Batch& made = given.epochs[batch.epoch].emplace_back();
    const auto* values = static_cast<const std::int64_t*>(batch.arrays[0].values);
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      made.push_back({batch.keys[i], batch.marks[i]});
      if (values[4 * i] != value_at(batch.keys[i], 0)) given.wrong = "another row";
    }
    bf_batch_release(loader, batch.handle);
  }
  if (status != BF_OK && status != BF_END) given.wrong = bf_last_error();
  bf_loader_info info = BF_LOADER_INFO_INIT;
  bf_loader_info_get(loader, &info);
  given.steps_per_epoch = info.steps_per_epoch;
  const char* state = nullptr;
  if (bf_loader_state(loader, &state) == BF_OK) given.state = state;
  std::string problem;
  if (const auto position = order::position_from_json(given.state, problem))
    given.root = {position->fields().dataset_version, position->fields().seed};
  bf_loader_close(loader);
  return given;
}

// All ranks of one job.
inline std::vector<Given> read_ranks(
    bf_loader_options options, std::uint32_t ranks, std::uint64_t most,
    const Each& each = [](bf_loader*, std::uint64_t) {}) {
  std::vector<Given> given(ranks);
  std::vector<std::thread> threads;
  options.job = "ranks";
  options.world_size = ranks;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    threads.emplace_back([&, options, rank] { given[rank] = read(options, most, each); });
  }
  for (std::thread& thread : threads) thread.join();
  return given;
}

inline std::vector<std::uint64_t> exemplars(std::uint64_t count, std::uint64_t from) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < count; ++i) keys.push_back((from + i * 13) % kRows);
  return keys;
}

}  // namespace batchflow::test::live_orders
