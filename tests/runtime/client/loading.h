// Shared by tests of the C interface: services that follow a script, and loaders that read all
// batches.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/client/batchflow.h"
#include "tests/runtime/client/fake_service.h"
#include "tests/temporary_folder.h"

namespace batchflow::test {

// A folder of its own for sockets.
struct Address {
  TemporaryFolder folder;
  std::string socket = (folder / "s").string();
  protocol::Descriptor listener = listen_at(socket);
};

// One service after another, as the scripts say, in a thread.
struct Services {
  Services(const Address& place, std::vector<Script> scripts)
      : thread([&place, scripts = std::move(scripts), this] {
          for (const Script& script : scripts)
            seen.push_back(FakeService(place.listener, script).serve());
        }) {}
  // REQUIRES: all loaders are closed
  const std::vector<Seen>& end() {
    if (thread.joinable()) thread.join();
    return seen;
  }
  ~Services() { end(); }
  std::vector<Seen> seen;
  std::thread thread;
};

inline bf_loader_options options_for(const Address& place) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = place.socket.c_str();
  options.dataset = "things";
  options.batch_samples = 4;
  options.order = BF_RELAXED;
  options.timeout_s = 10;
  options.reconnect_s = 10;
  return options;
}

inline bf_loader* open(const bf_loader_options& options) {
  bf_loader* loader = nullptr;
  REQUIRE_MESSAGE(bf_loader_open(&options, &loader) == BF_OK, bf_last_error());
  return loader;
}

// Checks that all values in the batch belong to its keys.
inline void check_content(const bf_batch& batch) {
  REQUIRE(batch.fields == 3);
  for (std::uint32_t i = 0; i < batch.samples; ++i) {
    const std::uint64_t key = batch.keys[i];
    REQUIRE(batch.wanted[i] == key);
    const auto* image = static_cast<const std::uint8_t*>(batch.arrays[0].values) + 6 * i;
    REQUIRE(image[5] == static_cast<std::uint8_t>(key));
    REQUIRE(static_cast<const std::int64_t*>(batch.arrays[1].values)[i] ==
            static_cast<std::int64_t>(key));
    const std::int64_t* offsets = batch.arrays[2].offsets;
    REQUIRE(static_cast<std::uint64_t>(offsets[i + 1] - offsets[i]) == rows_of(key));
    const auto* tokens = static_cast<const std::uint8_t*>(batch.arrays[2].values);
    for (std::int64_t at = offsets[i] * 4; at < offsets[i + 1] * 4; ++at)
      REQUIRE(tokens[at] == static_cast<std::uint8_t>(key));
    REQUIRE(batch.marks[i] == (i >= batch.samples - batch.fillers ? BF_MARK_FILLER : 0));
  }
}

// How often each key came, fillers apart, until the end.
inline std::map<std::uint64_t, int> read_to_end(bf_loader* loader,
                                                std::uint64_t* batches = nullptr) {
  std::map<std::uint64_t, int> counts;
  bf_batch batch = BF_BATCH_INIT;
  bf_status status;
  while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
    check_content(batch);
    for (std::uint32_t i = 0; i < batch.samples; ++i)
      if ((batch.marks[i] & BF_MARK_FILLER) == 0) ++counts[batch.keys[i]];
    if (batches != nullptr) CHECK(batch.step == (*batches)++);
    bf_batch_release(loader, batch.handle);
  }
  REQUIRE_MESSAGE(status == BF_END, bf_last_error());
  return counts;
}

inline void check_each(const std::map<std::uint64_t, int>& counts, std::uint64_t samples,
                       int times) {
  CHECK(counts.size() == samples);
  for (const auto& [key, count] : counts) CHECK_MESSAGE(count == times, "key " << key);
}

}  // namespace batchflow::test
