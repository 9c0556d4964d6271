// The messages on a socket: JSON objects in frames, some with file descriptors.
//
// A frame (runtime/protocol/frame.h) holds one JSON object with a `type`; a reader ignores fields
// that it does not know. Strings are UTF-8 without zeros; 64-bit numbers are integers, not strings.
// Descriptors come with the first byte of the frame they belong to. Batches do not go through the
// socket. Only for a job on another machine, the bytes of each batch follow its record, in a frame
// of their own (runtime/remote/tcp_channel.h).
//
//   job          hello {protocol, version, pid, from}
//   service      welcome {protocol, version, service}
//                | refused {why, message}                 why "protocol": another number than the
//                                                         service's
//   job          join {JoinRequest} + [a descriptor of the dataset's folder]
//   service      admitted {JoinAnswer} + the files of the two rings, doorbell, pace file
//                | refused {why, message}                 why "not_yet": ask again soon
//   service      slab {slab, bytes} + memory file         any time after, before a batch names it
//   service      slab_gone {slab}                         no later batch names it
//   service      refused {why, message}                   before a `refused` record: why the
//                                                         job ends
//   job          waiting {}; service: waiting {message}   which other ranks hold it up, also
//                                                         before it is admitted; empty: none
//   job          samples_sum {first, count}; service: samples_sum {first, count, names, labels,
//                pairs}                                   of consecutive samples
//   job          leave {}
//   job          sample_name {key}; service: sample_name {key, name} (empty: it has no name);
//                class_name likewise
//   job          find_sample {name, from}; service: find_sample {name, from, key | next}
//   batchflowctl command {name, arguments}
//   service      answer {...} | error {message}
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "core/engine/event.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/protocol/frame.h"
#include "runtime/protocol/order_options.h"

namespace batchflow::protocol {

// The `type` of a message; empty, with the reason in `problem`, for a frame that is no message.
std::string message_type(std::string_view frame, std::string& problem);

struct Hello {
  std::uint32_t protocol = 0;
  std::string version;
  std::uint64_t pid = 0;
  std::string from;  // the machine of a remote job, which the relay fills in; empty: this machine
};
struct Welcome {
  std::uint32_t protocol = 0;
  std::string version;
  std::string service;  // a name that differs at each start of the service
};

// Seconds; the engine's bound.
inline constexpr double kLatencyTargetMostS =
    std::chrono::duration<double>(engine::kLatencyTargetMost).count();

struct JoinRequest {
  std::string dataset;
  // How a dataset given as a path is read: `tokens=1024`, `split=train:0.9`, as in --dataset.
  std::string reading;
  std::string pipeline;
  std::string form;  // that the pipeline's samples have: encoded, decoded; empty: prepared
  std::string job;   // empty: a new job
  std::uint64_t pid = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t batch_samples = 1;
  Order order = Order::relaxed;
  OrderOptions order_options = {};
  std::vector<SampleId> exemplars = {};  // that the job rehearses from the beginning on
  std::optional<std::uint64_t> shuffle_seed;
  bool drop_last = false;  // without the incomplete step at an epoch's end
  std::uint32_t epochs = 0;
  std::uint64_t steps = 0;
  std::uint32_t credits = 0;
  double weight = 1;
  double latency_target_s = 0;    // how long the job may wait for a batch without harm
  std::string state;              // JSON of a position; empty: from the beginning
  bool rejoins = false;           // after the service was away
  std::string ticket = {};        // rejoins: from the rank's last JoinAnswer
  std::uint64_t steps_given = 0;  // rejoins: how many batches any service has given the rank
  Digest pipeline_hash = 0;
  // The client can follow an order of which a policy chooses the samples.
  bool follows_choices = false;
  std::optional<double> corrupt_ratio_max;  // of the dataset's samples; none: the service's limit
  // The user allows that the job is given batches again, to see how fast it is without waits.
  bool allows_ideal = false;
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
  batch::BatchSpec spec;
  std::uint64_t ring_bytes = 0;    // of the records of each ring
  std::string state;               // where the job begins
  std::vector<std::string> notes;  // what the user should know of the data
  std::string ticket = {};         // a secret of this rank: a process that shows it may replace it
  // The request's options as the service has taken them. A service that does not know them takes
  // none.
  OrderOptions order_options = {};
};

// `why` is one word, for programs; `message` is for people, and says what to do.
struct Refused {
  std::string why;
  std::string message;
  // The path that a job should open and show when it asks again; empty: that would not help.
  std::string show = {};
  // For a rank that comes back: the others have been given so many batches. This rank has them,
  // too, and is to come again when it has given them. 0: this is not the reason.
  std::uint64_t steps_given = 0;
};

struct SlabMessage {
  std::uint64_t slab = 0;
  Bytes bytes = 0;  // of its memory file; 0: the slab is gone
};

// A question for a name, and its answer.
struct NameMessage {
  bool of_class = false;  // else of a sample
  std::uint64_t key = 0;
  std::optional<std::string> name;  // none: this is the question
};

// Checksums of samples [first, first + count), to compare them with samples that a client has.
struct SamplesSum {
  static constexpr std::uint64_t kMost = 4096;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  // `names` is the CRC-32 of all names, with a zero byte behind each; `labels` that of all labels
  // in decimals (-1: none) likewise. `pairs` is the sum of one CRC-32 for each sample, of its name,
  // a zero byte and its label; it is the same in any order.
  std::uint64_t names = 0;
  std::uint64_t labels = 0;
  std::uint64_t pairs = 0;
};

// Asks which sample has this name: the first from key `from` on, of kMost samples at most. The
// answer has its key, or in `next` where to look further; neither: no sample has the name.
struct FindMessage {
  static constexpr std::uint64_t kMost = 4096;
  std::string name;
  std::uint64_t from = 0;
  std::optional<std::uint64_t> key = {};
  std::optional<std::uint64_t> next = {};
};

// The question which other ranks hold this rank up; with `message` it is the answer.
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
std::string encode(const FindMessage& message);
std::string encode(const WaitingMessage& message);
std::string encode_leave();

// Each answers nothing for bytes that are no such message, whatever they are, with the reason in
// `problem`.
std::optional<Hello> decode_hello(std::string_view frame, std::string& problem);
std::optional<Welcome> decode_welcome(std::string_view frame, std::string& problem);
std::optional<JoinRequest> decode_join(std::string_view frame, std::string& problem);
std::optional<JoinAnswer> decode_join_answer(std::string_view frame, std::string& problem);
std::optional<Refused> decode_refused(std::string_view frame, std::string& problem);
std::optional<SlabMessage> decode_slab(std::string_view frame, std::string& problem);
std::optional<NameMessage> decode_name(std::string_view frame, std::string& problem);
std::optional<SamplesSum> decode_samples_sum(std::string_view frame, std::string& problem);
std::optional<FindMessage> decode_find(std::string_view frame, std::string& problem);
std::optional<WaitingMessage> decode_waiting(std::string_view frame, std::string& problem);

}  // namespace batchflow::protocol
