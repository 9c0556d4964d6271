// The engine's state as text (core/engine/state.h).
#include <fmt/format.h>

#include <iterator>

#include "core/engine/state.h"

namespace batchflow::engine {

namespace {

using Out = std::back_insert_iterator<std::string>;

void describe_places(const EngineState& s, Out out) {
  s.memory.each([&](ShareId index) {
    const SharePart& part = s.memory[index];
    fmt::format_to(out,
                   "share {} (node {} tier {} use {}): {} of {} slots of {} B used, {} pinned, "
                   "promised {}, target {}\n",
                   index.value, part.spec.place.node.value, static_cast<int>(part.spec.place.tier),
                   static_cast<int>(part.spec.use), part.share->used(), part.share->capacity(),
                   part.spec.slot_bytes, part.share->used() - part.share->evictable(), part.least,
                   part.target);
  });
  for (const Node& node : s.nodes) {
    if (node.lost) continue;
    fmt::format_to(out, "node {}: {} workers, {} idle, {} started, {} ready{}\n", node.id.value,
                   node.workers, node.idle.size(), node.started, node.ready.size(),
                   node.takes_work ? "" : ", takes no work");
    const StagingPart& staging = s.memory.staging({node.id, Tier::dram, 0});
    fmt::format_to(
        out,
        "  staging: {} B of {} B in use, {} B for listed orders, at least {} B, wanted {} "
        "B; {} makings wait\n",
        staging.used, staging.room(), staging.listed, staging.least, staging.target,
        node.wait_for_staging.size());
  }
}

void describe_streams(const EngineState& s, Out out) {
  s.streams.each([&](StreamId index) {
    const Stream& stream = s.streams[index];
    fmt::format_to(out, "stream {}: B {}, {} jobs;", index.value, stream.block_samples,
                   stream.jobs.size());
    for (const StreamNode& part : stream.nodes) {
      fmt::format_to(out, " node {} share {} reserve {} ahead {} current {}{};", part.node.value,
                     part.share.value, part.reserve, part.ahead,
                     static_cast<int>(part.current.index.value), part.standby ? " standby" : "");
    }
    fmt::format_to(out, "\n");
  });
  s.blocks.each([&](BlockIndex index) {
    const Block& block = s.blocks[index];
    fmt::format_to(out, "block {}: g{} v{} r{} b{} share {} {} charge {} job {} grants {}\n",
                   index.value, block.name.generation, block.name.lane, block.name.pass,
                   block.name.block, block.share.value,
                   block.resident ? "resident" : "in the making", static_cast<int>(block.charge),
                   static_cast<int>(block.charged_job.value), block.grants);
  });
  s.makings.each([&](MakingIndex index) {
    const Making& making = s.makings[index];
    fmt::format_to(out, "making {} of block {}: waits for {}, {} reads, worker {}, attempts {}{}\n",
                   index.value, making.block.value, making.waiting, making.held.reads.size(),
                   static_cast<int>(making.worker.value), making.attempts,
                   making.preparing           ? ", preparing"
                   : making.ready             ? ", ready"
                   : making.waits_for_staging ? ", waits for staging memory"
                                              : "");
  });
}

void describe_jobs(const EngineState& s, Out out) {
  s.jobs.each([&](JobIndex index) {
    const Job& job = s.jobs[index];
    fmt::format_to(out,
                   "job {} (id {}, order {}, b {}, drop_last {}): state {}, {}committed {}, ahead "
                   "{}, makings {}, held {}, need {}\n",
                   index.value, job.id.value, static_cast<int>(job.order), job.batch_samples,
                   job.drop_last, static_cast<int>(job.state), job.is_waiting() ? "waits, " : "",
                   job.committed_step, job.ahead, job.makings, job.held.size(),
                   static_cast<int>(job.candidate_slot));
    for (const EpochRun& run : job.runs) {
      fmt::format_to(out, "  epoch {}: consumed {}, granted {}, steps {} from {};", run.epoch,
                     run.plan.plain.consumed, run.plain.granted, run.steps, run.first_step);
      for (const Sequence* one : {&run.plain, &run.rehearsed}) {
        for (const Grant& grant : one->grants) {
          fmt::format_to(out, " [{}v{} b{} uncut {}-{} unserved {}{}]",
                         grant.rehearsal ? "rehearsed " : "", grant.name.lane, grant.name.block,
                         grant.from, grant.to, grant.unserved, grant.wanted ? " wanted" : "");
        }
      }
      fmt::format_to(out, "\n");
    }
    if (!job.member.is_none()) {
      const order::Lanes& lanes = *s.streams[job.stream].lanes;
      fmt::format_to(out, "  lanes: generation {}, {} blocks left, supply {}, {}in an epoch{}\n",
                     lanes.generation(job.member), lanes.blocks_left(job.member),
                     lanes.supply(job.member), lanes.in_epoch(job.member) ? "" : "not ",
                     lanes.next_epoch_begun(job.member) ? ", next begun" : "");
    }
    for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
      const RankState& state = job.ranks[rank];
      fmt::format_to(out, "  rank {}: credits {}, next {}, consumed {};", rank, state.credits,
                     state.next_step, state.consumed_steps);
      for (const BatchIndex batch_index : state.batches) {
        const Batch& batch = s.batches[batch_index];
        fmt::format_to(out, " [step {} state {} uncut {}-{} share {}", batch.step,
                       static_cast<int>(batch.state), batch.uncut.from, batch.uncut.to,
                       static_cast<int>(batch.share.value));
        for (const Piece& piece : batch.pieces) {
          fmt::format_to(out, " {}:{}", piece.index, static_cast<int>(piece.state));
        }
        fmt::format_to(out, "]");
      }
      fmt::format_to(out, "\n");
    }
  });
}

}  // namespace

std::string describe(const EngineState& state) {
  std::string text;
  const Out out(text);
  describe_places(state, out);
  describe_streams(state, out);
  describe_jobs(state, out);
  return text;
}

}  // namespace batchflow::engine
