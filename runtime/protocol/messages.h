// What is said over a socket: JSON objects in frames, with file descriptors beside some of them.
//
// A frame (runtime/protocol/frame.h) holds one JSON object with a `type`; what else stands in it
// than is known is ignored. Strings are UTF-8 without zeros; 64-bit numbers are integers, not
// strings. Descriptors ride with the first byte of the frame they belong to. Batches do not come
// this way, unless the job is on another machine: then a `batch` frame of bytes follows each
// record.
//
//   job          hello {protocol, version, pid, from}
//   service      welcome {protocol, version, service}
//   job          join {JoinRequest} + [a descriptor of the dataset's folder]
//   service      admitted {JoinAnswer} + down ring, up ring, doorbell
//                | refused {why, message}                why "not_yet": to be asked again soon
//   service      slab {slab, bytes} + memory file         any time after, before a batch names it
//   service      slab_gone {slab}                         no later batch names it
//   service      refused {why, message}                   before a `refused` record: why the
//                                                         job ends
//   job          waiting {}; service: waiting {message}   which other ranks hold it up, also
//                                                         before it is admitted; empty: none do
//   job          samples_sum {first, count}; service: samples_sum {first, count, names, labels,
//                pairs}                                   of samples in a row
//   job          leave {}
//   job          sample_name {key}; service: sample_name {key, name} (empty: there is none), and
//                class_name likewise
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
#include "runtime/protocol/frame.h"

namespace batchflow {

// What a frame's `type` is; empty, with the reason in `problem`, when it is no message at all.
std::string message_type(std::string_view frame, std::string& problem);

struct Hello {
  std::uint32_t protocol = 0;
  std::string version;
  std::uint64_t pid = 0;
  std::string from;  // the machine of a remote job, as the relay tells it; empty: this one
};
struct Welcome {
  std::uint32_t protocol = 0;
  std::string version;
  std::string service;  // names this start of the service
};

struct JoinRequest {
  std::string dataset;
  std::string reading;  // of a path: `tokens=1024`, `split=fraction=0.9`, as --dataset has them
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
  std::string state;              // JSON of a position; empty: from the beginning
  bool rejoins = false;           // after the service was away
  std::string ticket = {};        // rejoins: of its JoinAnswer before
  std::uint64_t steps_given = 0;  // rejoins: how many the rank has been given, by any service
  Digest pipeline_hash = 0;
  std::optional<double> corrupt_ratio_max;  // of the dataset's samples; none: the service's
};

struct JoinAnswer {
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
  std::uint64_t ring_bytes = 0;    // of each ring's records
  std::string state;               // where the job begins
  std::vector<std::string> notes;  // what its user should know of the data
  std::string ticket = {};  // a secret of this rank's: whoever shows it may come in its place
};

// `why` is one word, for programs; `message` is for people, with what to do.
struct Refused {
  std::string why;
  std::string message;
  // What a job that asks again had better show a descriptor of; empty: nothing would help.
  std::string show = {};
};

struct SlabMessage {
  std::uint64_t slab = 0;
  Bytes bytes = 0;  // of its memory file; 0: it is gone
};

// A question for a name, and its answer.
struct NameMessage {
  bool of_class = false;
  std::uint64_t key = 0;
  std::optional<std::string> name;  // none: the question
};

// Of samples [first, first + count), to compare them with what a client has without their names.
struct SamplesSum {
  static constexpr std::uint64_t kMost = 4096;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  // CRC-32s: of names, each with a zero behind it; of labels in decimals (-1: none) likewise. And
  // the sum of those of `name 0 label` of each, which is the same in any order.
  std::uint64_t names = 0;
  std::uint64_t labels = 0;
  std::uint64_t pairs = 0;
};

// Without `message` the question, which other ranks hold this one up.
struct WaitingMessage {
  std::optional<std::string> message;
};

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);
std::string encode(const JoinRequest& request);
std::string encode(const JoinAnswer& admission);
std::string encode(const Refused& refused);
std::string encode(const SlabMessage& message);
std::string encode(const NameMessage& message);
std::string encode(const SamplesSum& sum);
std::string encode(const WaitingMessage& message);
std::string encode_leave();

// Each leaves the reason in `problem` for bytes that are not one, whatever they are.
std::optional<Hello> decode_hello(std::string_view frame, std::string& problem);
std::optional<Welcome> decode_welcome(std::string_view frame, std::string& problem);
std::optional<JoinRequest> decode_join(std::string_view frame, std::string& problem);
std::optional<JoinAnswer> decode_join_answer(std::string_view frame, std::string& problem);
std::optional<Refused> decode_refused(std::string_view frame, std::string& problem);
std::optional<SlabMessage> decode_slab(std::string_view frame, std::string& problem);
std::optional<NameMessage> decode_name(std::string_view frame, std::string& problem);
std::optional<SamplesSum> decode_samples_sum(std::string_view frame, std::string& problem);
std::optional<WaitingMessage> decode_waiting(std::string_view frame, std::string& problem);

}  // namespace batchflow
