// What can be configured of the engine, with its defaults (programs/config/engine_settings.h reads
// it).
//
// A preset combines policies of all kinds with the settings they need. A setting that a
// configuration gives beside its preset wins. Policies are named by text (`minio`,
// `bounded-lag:blocks=4`), which the engine looks up in its list of policies.
//
// These are the defaults of services and of scenarios alike, so that a scenario without settings of
// the engine is the same in both. docs/simulated-and-lived.md has what differs on purpose.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/config_value.h"
#include "core/base/types.h"
#include "core/engine/policy_texts.h"
#include "core/engine/preset.h"
#include "core/order/live_epoch.h"

namespace batchflow::engine {

// No job needs more batches ahead. A job that asks for more credits gets this many, if they fit.
inline constexpr std::uint32_t kCreditsMost = 1024;  // a rank
// Longer than any run, and short enough that adding it to a time within a run does not overflow.
inline constexpr Duration kDurationMost = std::chrono::hours(24 * 366);
inline constexpr Duration kRankTimeoutLeast = std::chrono::milliseconds(1);
inline constexpr Duration kRetryWaitLeast = std::chrono::microseconds(1);
inline constexpr std::uint32_t kHelperNodesMost = 1 << 20;
inline constexpr std::uint32_t kWorkersPerRankMost = 4096;
inline constexpr std::uint32_t kLateAfterMost = 1000;

struct EngineConfig {
  EngineConfig();  // preset `default`

  std::string preset;
  PolicyTexts policies;
  std::uint64_t seed = 1;  // of every policy's own stream of chance; no order comes from it

  // What a job gets.
  // Of a rank, unless the job asks for another number. One is spare, so that no job waits for
  // itself.
  std::uint32_t credits = 3;
  std::uint32_t ready_window = 16;      // hard span within which ready blocks may be taken first
  std::uint32_t generation_epochs = 8;  // after which a job opens a new generation
  // Of a prepared block, to which B is fitted. Larger blocks delay the first batch, which waits for
  // its block, and save nothing that could be measured.
  Bytes block_bytes = Bytes{8} << 20;
  // Of a dataset. One that would have fewer blocks has smaller ones. With one or two blocks an
  // epoch, jobs that are not in step share nothing. More blocks than this make no difference
  // (docs/decisions.md).
  std::uint32_t blocks_least = 8;
  Bytes item_slot_bytes = 4096;                   // in which encoded samples are counted
  Ratio corrupt_ratio_max{Ratio::kWhole / 1000};  // of a dataset's samples, or a source's
  // How long after the loss of a rank its job ends. A rank that has ended does not come back, and
  // the others must know soon.
  Duration rank_timeout = std::chrono::seconds(5);

  // What fails is tried again: this many attempts in all, the second after `retry_wait`, the next
  // after twice that.
  std::uint32_t read_attempts = 5;
  std::uint32_t delivery_attempts = 5;
  Duration retry_wait = std::chrono::milliseconds(10);

  // Preset `independent` simulates jobs without sharing, with the same engine.
  bool share_streams = true;  // false: a stream a job
  bool share_nodes = true;    // false: a node knows its own caches alone
  // Nodes beyond those of a stream's ranks that prepare for it. The samples of its dataset have
  // their homes on all of these, and on more nodes where these cannot hold the dataset twice.
  std::uint32_t helper_nodes = 8;
  std::uint32_t workers_per_rank = 0;      // 0: all workers of a node serve all jobs
  bool workers_held_during_reads = false;  // a worker waits for the reads of its block
  // The ingredients of a block stay in their caches until it is made. False for replays: their
  // blocks stand for streams that need only a part of their samples at a time.
  bool hold_ingredients = true;
  // Reads land in staging memory, which is a part of their place. It has `staging_bytes`, or with 0
  // enough to keep all workers busy, within a bound; in any case it has room for one sample. Where
  // storage is read in whole sectors, a sample takes all sectors that it may touch. False for
  // models of caches, in which places hold only what is kept: then reads are not bounded.
  bool count_staging = true;
  Bytes staging_bytes = 0;
  Bytes staging_sector_bytes = 1;
  std::uint32_t blocks_in_flight_per_worker = 2;  // read or in preparation, where reads hold none
  // The most blocks of a job that are ready or being made beyond those its ranks wait for, whatever
  // the policy asks for. 0 for replays: their blocks stand for streams that come while they are
  // used.
  std::uint32_t look_ahead_most = 1 << 20;
  // The blocks of a live job's generation, at most. After these its epoch goes on in a new one,
  // when all of them are used. Tests make it small.
  std::uint32_t live_blocks_most = order::kLiveBlocksMost;
  // A block that has been in preparation for longer than this many times its stream's p99 is given
  // to a second worker as well; 0: never.
  std::uint32_t late_after_p99 = 2;

  // Bounds of the logs. A journal ends at its bound; the promise log begins anew with a snapshot.
  Bytes journal_bytes_max = Bytes{1} << 30;
  Bytes promise_log_bytes_max = Bytes{16} << 20;

  friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

// Throws ConfigError naming the nearest preset.
void apply_preset(EngineConfig& config, std::string_view name);

// `key=value`: one of the settings that may change while the engine runs, among them all that
// presets have beside policies. Throws ConfigError.
void change_setting(EngineConfig& config, std::string_view assignment);

}  // namespace batchflow::engine
