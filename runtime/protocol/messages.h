// What is said over a socket: JSON objects in frames, with file descriptors beside some of them.
//
// A frame is its length (four bytes, little-endian, at most kFrameMost) and a JSON object with a
// `type`. Descriptors ride with the first byte of the frame they belong to. Batches do not come
// this way, unless the job is on another machine: then a `batch` frame of bytes follows each
// record.
//
//   job          hello {protocol, version, pid}
//   service      welcome {protocol, version, service}
//   job          join {JoinRequest} + [a descriptor of the dataset's folder]
//   service      admitted {Admission} + down ring, up ring, doorbell
//                | refused {why, message}
//   service      slab {slab, bytes} + memory file         any time after, before a batch names it
//   service      slab_gone {slab}                         no later batch names it
//   job          leave {}
//   job          sample_name {key} ; service: sample_name {name} ; class_name likewise
//   anybody      command {name, arguments}                batchflowctl
//   service      answer {...} | error {message}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "runtime/batch/batch_spec.h"

namespace batchflow {

inline constexpr std::size_t kFrameMost = std::size_t{1} << 20;

struct JoinRequest {
  std::string dataset;
  std::string pipeline;
  std::string job;  // empty: a new one
  std::uint64_t pid = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t batch_samples = 1;
  Order order = Order::relaxed;
  std::optional<std::uint64_t> shuffle_seed;
  bool drop_last = false;
  std::uint32_t epochs = 0;
  std::uint64_t steps = 0;
  std::uint32_t credits = 0;
  double weight = 1;
  std::string state;     // JSON of a position; empty: from the beginning
  bool rejoins = false;  // after the service was away
  Digest pipeline_hash = 0;
};

struct Admission {
  std::string job;
  Digest dataset_version = 0;
  std::uint64_t dataset_samples = 0;
  std::uint64_t seed = 0;  // S
  Digest pipeline_hash = 0;
  std::uint32_t credits = 0;
  std::uint64_t first_step = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint32_t classes = 0;
  BatchSpec spec;
  std::uint64_t ring_bytes = 0;  // of each ring's records
  std::string state;             // where the job begins
};

std::string encode(const JoinRequest& request);
std::string encode(const Admission& admission);
// `why` is one word, for programs; `message` is for people, with what to do.
std::string encode_refusal(std::string_view why, std::string_view message);
// Each leaves the reason in `problem` for bytes that are not one.
std::optional<JoinRequest> decode_join(std::string_view frame, std::string& problem);
std::optional<Admission> decode_admission(std::string_view frame, std::string& problem);

}  // namespace batchflow
