// A job that keeps two lists of what it was handed: samples as they are stored, and samples that
// stand for corrupt ones.
#pragma once

#include "tests/runtime/service/live.h"

namespace batchflow::test {

// What a job was handed: keys by epoch, those that stand for corrupt ones apart.
struct Seen {
  std::map<std::uint32_t, std::vector<std::uint64_t>> good;
  std::map<std::uint32_t, std::vector<std::uint64_t>> replaced;  // the corrupt ones, by key
  std::string wrong;
};

inline Seen see(const JobPlan& plan) {
  Seen seen;
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = plan.service.c_str();
  options.dataset = plan.dataset.c_str();
  options.pipeline = plan.pipeline.c_str();
  options.batch_samples = plan.batch;
  options.epochs = plan.epochs;
  options.order = plan.order;
  options.timeout_s = plan.timeout_s;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    seen.wrong = bf_last_error();
    return seen;
  }
  bf_batch batch = BF_BATCH_INIT;
  bf_status status = BF_OK;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    for (std::uint32_t i = 0; i < batch.samples; ++i) {
      if ((batch.marks[i] & BF_MARK_FILLER) != 0) continue;
      if ((batch.marks[i] & BF_MARK_REPLACED) != 0) {
        seen.replaced[batch.epoch].push_back(batch.wanted[i]);
      } else {
        seen.good[batch.epoch].push_back(batch.keys[i]);
      }
    }
    bf_batch_release(loader, batch.handle);
    if (plan.count) ++*plan.count;
  }
  if (status != BF_END) seen.wrong = bf_last_error();
  bf_loader_close(loader);
  return seen;
}

inline std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> keys) {
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace batchflow::test
