#include "tests/core/lanes_history.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

namespace batchflow::test {

// ----------------------------------------------------------------------------------- readers ----

std::string EpochReader::read(const order::BlockName& name, const std::vector<SampleId>& ids,
                              const order::Permutation& sequence) {
  if (strict_ && name.generation != epoch_) return "a strict block of another epoch";
  for (const SampleId id : ids) {
    if (strict_ && id != SampleId(sequence(count_))) return "a strict job out of sequence";
    if (seen_[id.value]) return "a sample twice in one epoch";
    Draw& draw = draws_[id.value];
    const Draw now{true, name.generation, name.pass};
    if (draw.any && std::pair(now.generation, now.pass) <= std::pair(draw.generation, draw.pass))
      return "draws that are not fresh";
    draw = now;
    seen_[id.value] = true;
    ++count_;
  }
  if (count_ == seen_.size()) leave_out_tail();
  return {};
}

void EpochReader::leave_out_tail() {
  seen_.assign(seen_.size(), false);
  count_ = 0;
  ++epochs_;
  ++epoch_;
}

// ----------------------------------------------------------------------------------- history ----

History::History(std::uint64_t seed, RestoreBug bug) : random_(hash(seed, 99)), bug_(bug) {
  samples_ = chance(.1) ? between(1, 8) : between(20, 900);
  strict_jobs_ = chance(.5);
  window_ = between(1, 80);
  jobs_to_come_ = between(1, 6);
  options_.dataset_version = random_.draw();
  options_.seed = random_.draw();
  options_.sizes = random_sizes();
  const std::uint32_t epochs[] = {1, 2, 3, 8, UINT32_MAX};
  options_.generation_epochs = epochs[random_.below(5)];
  if (chance(.3)) options_.open_lanes_most = static_cast<std::uint32_t>(between(1, 4));
  if (chance(.3)) options_.passes_most = static_cast<std::uint32_t>(between(1, 5));
  if (chance(.3)) options_.ready_window = static_cast<std::uint32_t>(between(1, 5));
  lanes_ = std::make_unique<order::Lanes>(options_);
}

order::LaneSizes History::random_sizes() {
  order::LaneSizes sizes{samples_, static_cast<std::uint32_t>(between(1, 8)), 1};
  const std::uint64_t lanes = between(1, 40);
  sizes.lane_blocks = static_cast<std::uint32_t>((sizes.blocks() + lanes - 1) / lanes);
  return sizes;
}

std::string History::run() {
  for (std::uint64_t turn = 0; error_.empty(); ++turn) {
    if (turn > 2'000'000) return "no end in sight: a job starves";
    if (jobs_to_come_ > 0 && chance(jobs_.empty() ? 1 : .01)) join();
    const bool all_done = std::all_of(jobs_.begin(), jobs_.end(),
                                      [](const Job& job) { return job.member.is_none(); });
    if (all_done && jobs_to_come_ == 0) break;
    if (all_done) continue;
    act(pick_job());
    complete_one();
    if (chance(.02) && !resident_.empty()) lose(random_.below(resident_.size()));
    if (chance(.0005)) restart_service();
    if (chance(.002)) options_.sizes = strict_jobs_ ? options_.sizes : random_sizes();
    lanes_->set_sizes(options_.sizes);
    tell_changed_needs();
    if (turn % 64 == 0) lanes_->check_consistency();
  }
  if (!error_.empty()) return error_;
  while (!resident_.empty()) lose(resident_.size() - 1);
  while (!making_.empty()) {
    lanes_->failed(making_.back().ref);
    making_.pop_back();
  }
  if (lanes_->members() + lanes_->open_passes() + lanes_->generations() != 0)
    return "something is kept when all have left";
  return {};
}

void History::join() {
  --jobs_to_come_;
  Job job;
  job.strict = strict_jobs_ && chance(.4);
  job.speed = static_cast<std::uint32_t>(between(1, 40));
  job.look_ahead = static_cast<std::uint32_t>(between(0, 6));
  job.epochs_wanted = between(1, 5);
  const std::uint64_t epoch = job.strict ? between(0, 4) : 0;
  job.end = chance(.5) ? epoch + job.epochs_wanted : 0;
  job.reader = std::make_unique<EpochReader>(samples_, job.strict, epoch);
  jobs_.push_back(std::move(job));
  start(jobs_.back(), jobs_.size() - 1);
}

// From what is committed, or from the beginning.
void History::start(Job& job, std::size_t index) {
  const auto tag = static_cast<std::uint32_t>(index);
  if (job.strict) {
    job.member =
        lanes_->add_strict(tag, job.reader->strict_epoch(),
                           job.reader->samples_in_epoch() / options_.sizes.block_samples, job.end);
  } else {
    if (bug_ != RestoreBug::none) damage(job.committed);
    job.member = lanes_->add_relaxed(tag, job.committed);
  }
  lanes_->set_look_ahead(job.member, job.look_ahead);
}

// What a wrong restore would make of the position; still one that can be told from none.
void History::damage(order::LanePosition& position) const {
  order::LanePosition wrong = position;
  Bitmap begun = position.had;
  for (auto& lane : wrong.open) {
    begun.set(lane.lane);
    if (bug_ == RestoreBug::bitmap_forgotten) lane.had = Bitmap(lane.had.size());
  }
  for (std::size_t lane = 0; lane < begun.size(); ++lane)
    if (bug_ == RestoreBug::passes_forgotten && (position.epoch_done() || !begun.test(lane)))
      wrong.passes[lane] = 0;
  if (bug_ == RestoreBug::lanes_had_forgotten) wrong.had = Bitmap(wrong.had.size());
  if (wrong.consistent(options_.passes_most)) position = std::move(wrong);
}

void History::stop(Job& job) {
  lanes_->remove(job.member);
  job.member = order::MemberId::none();
  job.uncommitted.clear();
}

// All blocks are lost; jobs bring their positions, in any order.
void History::restart_service() {
  std::vector<std::size_t> alive;
  for (std::size_t index = 0; index < jobs_.size(); ++index)
    if (!jobs_[index].member.is_none()) alive.push_back(index);
  lanes_ = std::make_unique<order::Lanes>(options_);
  making_.clear();
  resident_.clear();
  shuffle<std::size_t>(alive, random_);
  for (const std::size_t index : alive) {
    jobs_[index].uncommitted.clear();
    start(jobs_[index], index);
  }
}

std::size_t History::pick_job() {
  std::uint64_t speeds = 0;
  for (const Job& job : jobs_) speeds += job.member.is_none() ? 0 : job.speed;
  std::uint64_t at = random_.below(speeds);
  for (std::size_t index = 0;; ++index) {
    const std::uint64_t speed = jobs_[index].member.is_none() ? 0 : jobs_[index].speed;
    if (at < speed) return index;
    at -= speed;
  }
}

void History::act(std::size_t index) {
  Job& job = jobs_[index];
  fill(index);
  take_one(index);
  if (chance(.3)) commit(job, random_.below(job.uncommitted.size() + 1));
  if (!error_.empty()) return;
  if (lanes_->in_epoch(job.member) && lanes_->blocks_left(job.member) <= 3 && chance(.05))
    leave_out_tail(job);
  if (!error_.empty()) return;
  if (job.reader->epochs() >= job.epochs_wanted || chance(.0005)) {
    stop(job);
  } else if (chance(.01)) {  // the job dies and comes back
    stop(job);
    start(job, index);
  }
  forget_freed();
}

void History::fill(std::size_t index) {
  const Job& job = jobs_[index];
  if (!lanes_->in_epoch(job.member)) lanes_->begin_next_epoch(job.member);
  while (lanes_->supply(job.member) < std::max(job.look_ahead, 1u)) {
    const order::Lanes::Need need = lanes_->next_need(job.member);
    if (need.kind == order::Lanes::Need::Kind::make) {
      lanes_->making(need.block);
      making_.push_back({need.block, index});
    } else if (need.kind == order::Lanes::Need::Kind::nothing) {
      if (!lanes_->may_begin_next_epoch(job.member)) return;
      lanes_->begin_next_epoch(job.member);
    }
  }
}

void History::take_one(std::size_t index) {
  Job& job = jobs_[index];
  lanes_->candidates(job.member, candidates_);
  if (job.strict && candidates_.size() > 1) candidates_.resize(1);
  std::erase_if(candidates_, [](const order::Lanes::Candidate& one) { return !one.ready; });
  if (candidates_.empty()) return;
  const order::BlockRef block = candidates_[random_.below(candidates_.size())].block;
  job.uncommitted.push_back({lanes_->name(block), lanes_->sizes(block)});
  lanes_->take(job.member, block);
  const auto taken = std::find_if(resident_.begin(), resident_.end(),
                                  [&](const Block& one) { return one.ref == block; });
  if (taken != resident_.end()) tell(*taken);
}

void History::tell(Block& block) {
  if (lanes_->valid(block.ref))
    block.reported = lanes_->needed(block.ref) + lanes_->may_join(block.ref);
}

// As the engine does it: in slices. When none is left, what was reported is what is so.
void History::tell_changed_needs() {
  const bool all = lanes_->visit_changed_needs(between(1, 20), [&](order::BlockRef changed) {
    for (Block& block : resident_)
      if (block.ref == changed) tell(block);
  });
  if (!all) return;
  for (const Block& block : resident_) {
    Block now = block;
    tell(now);
    if (now.reported != block.reported)
      error_ = "a policy does not know how many members need a block";
  }
}

void History::commit(Job& job, std::size_t grants) {
  std::vector<SampleId> ids;
  for (std::size_t i = 0; i < grants && error_.empty(); ++i) {
    const Grant& grant = job.uncommitted[i];
    const order::KeyRoot root{options_.dataset_version, options_.seed};
    const order::GenerationOrder order{Order::relaxed, root, grant.name.generation, grant.sizes};
    expander_.expand(order.lineage(grant.name, DatasetId(0), PipelineId(0), 0), samples_, ids);
    const std::uint64_t epochs = job.reader->epochs();
    error_ = job.reader->read(grant.name, ids, sequence(grant.name.generation));
    job_epochs_ += job.reader->epochs() - epochs;
    if (!job.strict) job.committed.record(grant.name, grant.sizes);
  }
  job.uncommitted.erase(job.uncommitted.begin(),
                        job.uncommitted.begin() + static_cast<std::ptrdiff_t>(grants));
}

// As with drop_last: all that was granted is committed, the rest is not wanted.
void History::leave_out_tail(Job& job) {
  commit(job, job.uncommitted.size());
  lanes_->end_epoch(job.member);
  job.reader->leave_out_tail();
  job.committed.had = Bitmap(job.committed.had.size());
  job.committed.open.clear();
}

const order::Permutation& History::sequence(std::uint64_t epoch) {
  const order::KeyRoot root{options_.dataset_version, options_.seed};
  return sequences_.try_emplace(epoch, order::generation_key(root, epoch), samples_).first->second;
}

// -------------------------------------------------------------------------- what backends do ----

void History::complete_one() {
  if (making_.empty()) return;
  std::swap(making_[random_.below(making_.size())], making_.back());
  const Block block = making_.back();
  making_.pop_back();
  if (chance(.1)) {
    lanes_->failed(block.ref);
    return;
  }
  lanes_->made(block.ref);
  resident_.push_back(block);
  tell(resident_.back());
  keep_window();
}

// Drops the oldest blocks, less those that are pinned for the jobs that asked for them.
void History::keep_window() {
  for (std::size_t i = 0; i < resident_.size() && resident_.size() > window_;) {
    const Job& requester = jobs_[resident_[i].requester];
    const bool pinned =
        !requester.member.is_none() && lanes_->needs(requester.member, resident_[i].ref);
    pinned ? void(++i) : lose(i);
  }
}

void History::lose(std::size_t resident) {
  lanes_->dropped(resident_[resident].ref);
  resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(resident));
}

// Preparations of passes that no member has open any more are cancelled.
void History::forget_freed() {
  for (std::size_t i = making_.size(); i-- > 0;) {
    if (lanes_->needed(making_[i].ref) != 0 || !chance(.5)) continue;
    lanes_->failed(making_[i].ref);
    making_.erase(making_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

namespace {

void run_histories(std::uint64_t first, std::uint64_t count) {
  const char* one = std::getenv("BATCHFLOW_SEED");
  if (one != nullptr) {
    first = std::strtoull(one, nullptr, 10);
    count = 1;
  }
  std::uint64_t job_epochs = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    History history(seed);
    const std::string error = history.run();
    CHECK_MESSAGE(error.empty(), error << "; replay: BATCHFLOW_SEED=" << seed
                                       << " test_core --test-case=\"*random histories*\"");
    job_epochs += history.job_epochs();
  }
  MESSAGE(job_epochs << " job epochs");
}

std::uint64_t caught(RestoreBug bug, std::uint64_t histories) {
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = 0; seed < histories; ++seed) wrong += !History(seed, bug).run().empty();
  return wrong;
}

}  // namespace

TEST_CASE("exactly once and fresh draws in random histories") {
  run_histories(0, 400);
}

TEST_CASE("canary: a restore that forgets something is caught by ids alone") {
  CHECK(caught(RestoreBug::passes_forgotten, 100) != 0);
  CHECK(caught(RestoreBug::bitmap_forgotten, 100) != 0);
  CHECK(caught(RestoreBug::lanes_had_forgotten, 100) != 0);
}

TEST_SUITE("long") {
  TEST_CASE("exactly once and fresh draws in 30,000 random histories") {
    run_histories(1000, 30'000);
  }
}

}  // namespace batchflow::test
