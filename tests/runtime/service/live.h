// A live service on its own thread, a dataset of which every byte is known, and jobs that check
// what they are handed by keys and contents alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "doctest/doctest.h"
#include "fmt/format.h"
#include "runtime/client/batchflow.h"
#include "runtime/service/service.h"
#include "runtime/sources/npy.h"
#include "tests/temporary_folder.h"

namespace batchflow::test {

using Folder = TemporaryFolder;

// With the folders it is in.
inline void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// Row k of `width` 64-bit numbers: k, k + 1, ... times 7. A file begins with row `first`.
inline std::int64_t value_at(std::uint64_t row, std::size_t column) {
  return static_cast<std::int64_t>((row + column) * 7);
}
inline void write_rows(const std::filesystem::path& file, std::uint64_t rows, std::size_t width,
                       std::uint64_t first = 0) {
  std::ofstream out(file, std::ios::binary);
  out << sources::npy_head("<i8", fmt::format("({}, {})", rows, width));
  std::vector<std::int64_t> row(width);
  for (std::uint64_t k = 0; k < rows; ++k) {
    for (std::size_t i = 0; i < width; ++i) row[i] = value_at(first + k, i);
    out.write(reinterpret_cast<const char*>(row.data()),
              static_cast<std::streamsize>(width * sizeof(std::int64_t)));
  }
}

class LiveService {
 public:
  explicit LiveService(service::NodeConfig config,
                       const engine::PolicyList& policies = policies::policy_list())
      : service_(config, {}, policies) {
    thread_ = std::thread([this] {
      service_.run([this](const std::string& line) {
        const std::lock_guard lock(mutex_);
        said_ += line + '\n';
      });
    });
  }
  int http_port() const { return service_.http_port(); }
  bool has_said(std::string_view words) const {
    const std::lock_guard lock(mutex_);
    return said_.find(words) != said_.npos;
  }
  int tcp_port() const { return service_.tcp_port(); }
  ~LiveService() {
    service_.stop();
    thread_.join();
  }

 private:
  service::Service service_;
  mutable std::mutex mutex_;
  std::string said_;
  std::thread thread_;
};

inline service::NodeConfig config_in(const std::filesystem::path& folder) {
  service::NodeConfig config = service::default_node_config();
  config.socket = folder / "batchflow.sock";
  config.state = folder / "state";
  config.memory = Bytes{512} << 20;
  config.workers = 2;
  config.http_port = 0;
  return config;
}

// What one rank was handed: keys by epoch, in order, fillers left out.
struct Handed {
  std::map<std::uint32_t, std::vector<std::uint64_t>> epochs;
  std::uint64_t batches = 0;
  std::uint64_t fillers = 0;
  std::uint64_t repeats = 0;
  std::uint64_t copied = 0;
  std::uint64_t again = 0;  // batches that were given again; they count in nothing else
  std::string wrong;        // the first thing that was
};

struct JobPlan {
  std::string service;
  std::string dataset = "rows";
  std::string pipeline;
  std::string name;
  bf_order order = BF_RELAXED;
  bool runs = false;
  std::uint32_t batch = 32;
  std::uint32_t epochs = 2;
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  bool drop_last = false;
  std::uint64_t batches_most = UINT64_MAX;
  std::string state;
  std::size_t width = 16;
  std::uint32_t credits = 0;
  unsigned pause_us = 0;    // of computing, a batch
  bool keep = false;        // batches are not released before the end
  bool holds_last = false;  // each is released when the next has come, as in a loop of Python
  bool ideal = false;       // batches may be given again
  double timeout_s = 20;
  std::atomic<std::uint64_t>* count = nullptr;
  std::vector<const char*> sources = {};  // of a mixture, each at the same share
};

inline Handed run_job(const JobPlan& plan, std::string* state = nullptr) {
  Handed handed;
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = plan.service.c_str();
  options.dataset = plan.dataset.c_str();
  if (!plan.pipeline.empty()) options.pipeline = plan.pipeline.c_str();
  if (!plan.name.empty()) options.job = plan.name.c_str();
  options.batch_samples = plan.batch;
  options.rank = plan.rank;
  options.world_size = plan.world;
  options.order = plan.order;
  options.runs = plan.runs ? 1 : 0;
  options.epochs = plan.epochs;
  options.drop_last = plan.drop_last;
  options.credits = plan.credits;
  options.timeout_s = plan.timeout_s;
  options.ideal = plan.ideal ? 1 : 0;
  if (!plan.state.empty()) options.state = plan.state.c_str();
  const std::vector<double> weights(plan.sources.size(), 1.0);
  options.sources = plan.sources.data();
  options.source_weights = weights.data();
  options.sources_count = plan.sources.size();
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    handed.wrong = fmt::format("open: {}", bf_last_error());
    return handed;
  }
  bf_batch batch = BF_BATCH_INIT;
  bf_status status = BF_OK;
  std::vector<std::uint64_t> kept;
  while (handed.batches < plan.batches_most && (status = bf_loader_next(loader, &batch)) == BF_OK) {
    const bool counts = batch.again == 0;
    ++(counts ? handed.batches : handed.again);
    if (!counts && batch.again != handed.again && handed.wrong.empty())
      handed.wrong = fmt::format("batch {}: given {} times before", batch.step, batch.again);
    handed.fillers += batch.fillers;
    handed.repeats += batch.repeats;
    handed.copied += batch.copied != 0 ? 1 : 0;
    if (plan.count) ++*plan.count;
    const auto* values = static_cast<const std::int64_t*>(batch.arrays[0].values);
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      for (std::size_t column = 0; column < plan.width; ++column) {
        if (values[i * plan.width + column] == value_at(batch.keys[i], column)) continue;
        if (handed.wrong.empty())
          handed.wrong = fmt::format("batch {}: sample {} has {} in column {}", batch.step,
                                     batch.keys[i], values[i * plan.width + column], column);
      }
      if (counts && (batch.marks[i] & BF_MARK_FILLER) == 0)
        handed.epochs[batch.epoch].push_back(batch.keys[i]);
    }
    if (plan.pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(plan.pause_us));
    if (plan.keep) {
      kept.push_back(batch.handle);
    } else if (plan.holds_last) {
      for (const std::uint64_t last : kept) bf_batch_release(loader, last);
      kept = {batch.handle};
    } else {
      bf_batch_release(loader, batch.handle);
    }
  }
  if (status != BF_OK && status != BF_END)
    handed.wrong = fmt::format("next: {} {}", static_cast<int>(status), bf_last_error());
  if (state) {
    const char* text = nullptr;
    if (bf_loader_state(loader, &text) == BF_OK) *state = text;
  }
  for (const std::uint64_t handle : kept) bf_batch_release(loader, handle);
  bf_loader_close(loader);
  return handed;
}

// Every key of [0, samples) once.
inline bool is_whole(std::vector<std::uint64_t> keys, std::uint64_t samples) {
  std::sort(keys.begin(), keys.end());
  if (keys.size() != samples) return false;
  for (std::uint64_t k = 0; k < samples; ++k) {
    if (keys[k] != k) return false;
  }
  return true;
}

}  // namespace batchflow::test
