// A small backend in virtual time: what a cluster does with the engine's commands, and jobs that
// train on what comes of them.
//
// It owns a heap of what will happen. Everything of one instant becomes one step of the engine,
// completions sorted by request id; the Machine carries out commands and checks them, and they end
// later. Jobs have ranks with credits, a barrier a step, and a position of their own, from which
// they go on after losses, resizes, restarts, and the loss of the engine itself. Whatever is
// delivered goes to a Checker. A run ends when all jobs are done; if nothing is left to happen
// before that, it is a deadlock, and a Violation says what waits.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/log/event_codec.h"
#include "core/log/promise_log.h"
#include "tests/driver/checker.h"
#include "tests/driver/disturbances.h"
#include "tests/driver/loss_check.h"
#include "tests/driver/machine.h"
#include "tests/driver/room_check.h"
#include "tests/driver/scenario.h"

namespace batchflow::test {

struct Outcomes : Counts {
  engine::EngineCounters engine;
  std::uint64_t digest = 0;  // over all commands
  std::uint64_t steps = 0;   // of the engine
  std::uint64_t samples_read_from_store = 0;
  Bytes staged_most = 0;  // by reads, at any time
  std::uint64_t refusals = 0;
  std::uint64_t jobs_done = 0;
  std::uint64_t weights_changed = 0;  // by policies
  Disturbances disturbances;          // while jobs were not done
  // Of each job, in their order: what it was told of its weights, other than by a policy.
  std::vector<std::vector<order::MixtureChange>> changes;
  std::uint64_t jobs_without_room = 0;  // that no memory there is would let in
  std::uint64_t jobs_given_up = 0;      // that were refused again and again for another reason
  Instant end{};                        // of the last job, or of the run if it was cut short
  Duration longest_wait{0};  // of a job that nothing was wrong with, between two of its steps
};

// What a test may do between engine and clients: to prove that the checker would notice.
struct Hooks {
  std::function<void(const engine::Command&)> commanded;
  // Changes what the engine commanded before it is carried out: a broken engine.
  std::function<void(std::vector<engine::Command>&)> spoil;
  std::function<void(std::vector<Handed>&, Rank, std::uint64_t step)> handed;
  // A job, in the scenario's order, and the samples of a step of it that counts: rank after rank,
  // neither fillers nor what is rehearsed.
  std::function<void(std::size_t job, std::span<const SampleId>)> counted;
  std::function<void(Instant, std::span<const engine::Event>)> before_step;
  std::function<void(std::span<const engine::Command>)> stepped;
  std::function<void(const engine::Engine&)> after_step;
  std::function<void(engine::Engine&)> begun;
};

class Driver {
 public:
  explicit Driver(const Scenario& scenario, const engine::PolicyList& policies, Hooks hooks = {});
  ~Driver();
  // Until all jobs are done. Throws Violation.
  Outcomes run();
  // Until nothing is left to happen, or so many steps; jobs need not be done.
  Outcomes run_for(std::uint64_t steps);

 private:
  struct Worker {
    NodeId node;
    bool alive = true;  // as the engine knows it
    bool quiet = false;
    RequestId request = RequestId::none();
    Instant joined{};
    std::uint64_t left_in = 0;  // the step in which the engine hears that it is quiet
  };
  struct Node {
    NodePlan plan;
    bool up = false;
    bool rests = false;
    std::uint32_t workers_wanted = 0;
    std::uint64_t incarnation = 0;
  };
  // A batch in the hands of a rank, or on its way there.
  struct Held {
    RequestId request;
    std::uint32_t attempt = 0;
    JobId job;
    Rank rank = 0;
    std::uint64_t step = 0;
    std::uint32_t epoch = 0;
    std::uint64_t incarnation = 0;  // of the client's ranks
    bool arrived = false;
    bool releasing = false;
    std::uint32_t failures = 0;
    bool last_of_epoch = false;
    std::vector<order::Slice> slices;
    std::uint32_t block_samples = 0;
    std::uint32_t lane_blocks = 0;
    Digest drawn_from = 0;
    bool rehearses = false;
    std::vector<std::uint64_t> indices;  // where samples are chosen: in the epoch's permutation
    std::vector<SampleId> own;           // neither fillers nor what is rehearsed
    RoomCheck::Leftover room;            // if its step counts no more
  };
  struct RankState {
    NodeId node;
    bool alive = true;
    bool training = false;
    std::uint64_t next = 0;                   // step
    std::deque<std::vector<SampleId>> asked;  // of a listed order
  };
  struct Consumed {  // a step, until all ranks have consumed it
    std::uint32_t ranks = 0;
    std::vector<Held> batches;  // by rank
  };
  struct Client {
    std::size_t index = 0;
    JobPlan plan;
    enum class State : std::uint8_t { away, joining, running, degraded, done } state = State::away;
    JobId id = JobId::none();
    std::uint64_t incarnation = 0;  // of its ranks: joins and resizes
    std::uint32_t credits = 0;
    std::uint32_t batch_samples = 1;
    std::vector<NodeId> nodes;
    RoomCheck::Asked asked;
    std::vector<RankState> ranks;
    std::vector<Held> held;
    order::Position position;
    std::unique_ptr<Checker> checker;
    Instant stopped_until{};
    Instant last_progress{};
    std::vector<SampleId> exemplars;    // as it has reported them to the service there is
    std::uint32_t attempts = 0;         // refused since its last step
    bool joins_anew = false;            // it has joined, and was not admitted yet
    std::unique_ptr<LossCheck> losses;  // of weights that a policy changes; else null
    std::deque<order::MixtureChange> changes_asked;  // of the service there is, not answered
    std::vector<order::MixtureChange> changes;       // that it was told
    std::uint64_t listed_sent = 0;
    std::uint64_t listed_consumed = 0;
    std::map<std::uint64_t, Consumed> consumed;
  };
  struct Completion {
    engine::Event event;
    RequestId id;
  };
  enum class Kind : std::uint8_t { read, prepare, transfer, deliver };
  struct Running {  // a command under way
    Kind kind = Kind::read;
    std::uint32_t attempt = 0;
    std::uint64_t serial = 0;
    std::uint32_t worker = 0;
  };

  // ---- time
  void after(Duration delay, std::function<void()> what);
  Duration drawn(Duration base);
  bool fails(std::uint32_t chance_in_1000);
  bool chance_in_100(std::uint32_t chance) { return chance > 0 && random_.below(100) < chance; }
  bool step_once();
  void report(const engine::Event& event) { facts_.push_back(event); }
  void complete(RequestId id, const engine::Event& event) { completions_.push_back({event, id}); }

  // ---- commands
  void carry_out(std::span<const engine::Command> commands);
  void on(const engine::Admit& command);
  void on(const engine::Refuse& command);
  void rejoin_or_give_up(Client& client, engine::Refusal why);
  void on(const engine::Read& command);
  void on(const engine::Prepare& command);
  void on(const engine::Transfer& command);
  void on(const engine::Deliver& command);
  void on(const engine::Drop& command) { machine_.drop(command); }
  void on(const engine::Cancel& command);
  void prepare_ended(const engine::Request& request, std::uint32_t worker, engine::Outcome outcome,
                     std::span<const SampleId> failed);
  void on(const engine::Release& command);
  void on(const engine::EpochEnded& command);
  void on(const engine::SetWorkers& command);
  void on(const engine::SetTimer& command);
  void on(const engine::LetGo& command);
  void on(const engine::Adopt& command) { machine_.adopt(command); }
  void on(const engine::MixtureSet& command);
  void on(const engine::ExemplarsSet&) {}  // hooks may look at it; what is drawn is checked
  void on(const engine::SourcePaced& command);
  void start(Kind kind, const engine::Request& request, Duration takes, std::function<void()> over);
  std::span<const SampleId> keep(std::vector<SampleId> samples);

  // ---- sources that grow
  struct Source {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    bool ended = false;
    std::uint64_t needed_from = 0;
    // As its log keeps them: of the records before `first`, it has these alone.
    std::map<order::ReservoirName, order::Reservoir> reservoirs;
    std::set<std::uint64_t> exemplars;
  };
  void check_there(const engine::Read& command) const;
  void plan_arrivals();
  void arrives(std::size_t dataset, std::size_t arrival);
  void report_source(const DatasetPlan& plan);

  // ---- nodes and workers
  void bring_up(std::size_t node);
  void lose_node(std::size_t node, Duration back_after);
  void match_workers(std::size_t node);
  void add_worker(std::size_t node);
  void retire(std::uint32_t id);
  void lose_worker(std::uint32_t id, Duration quiet_after);
  Node* node_of(NodeId id);

  // ---- jobs
  void join(std::size_t client);
  void leave(Client& client);
  void rejoin_later(Client& client, Duration delay);
  void let_all_go(Client& client, bool at_once);
  void arrived(std::size_t client, RequestId request);
  void train(std::size_t client);
  void trained(std::size_t client, Rank rank, std::uint64_t incarnation, Duration compute);
  void release(std::size_t client, RequestId request);
  void deliver_listed(Client& client, const engine::Deliver& command);
  void over_to(std::size_t client, RequestId request, bool well);
  void commit(Client& client, std::uint64_t step);
  void enter_draws(Client& client, const Held& first);
  void report_scores(Client& client, const Held& batch);
  void ask_for_change(Client& client);
  void report_losses(Client& client);
  void tell_first_scores(Client& client);
  void report_exemplars(Client& client);
  std::uint64_t buffer_of(std::size_t index) const;
  std::vector<std::uint64_t> indices_of(const Client& client, const engine::Deliver& command) const;
  static std::uint64_t draws_of(const JobPlan& plan, const DatasetPlan& dataset);
  // A policy chooses the samples of the job's blocks: its position is that of a strict one.
  bool is_chosen(const JobPlan& plan) const { return chooses_ && plan.order == Order::relaxed; }
  void finish(Client& client);
  Held* held(Client& client, RequestId request);
  void ask_listed(Client& client, Rank rank);
  void lose_rank(Client& client, Rank rank, bool resized_later = true);
  void resize(Client& client, std::uint32_t batch_samples, std::vector<NodeId> nodes);
  bool nodes_up(const std::vector<NodeId>& nodes);
  void check_rank_nodes(std::size_t node);
  Client* client_of(JobId id);
  const DatasetPlan& dataset_of(const Client& client) const;
  std::uint64_t seed_of(const Client& client) const;
  void begin_at_start(Client& client);
  order::Lineage lineage_of(const Client& client, const engine::Deliver& command,
                            const order::Slice& slice) const;
  std::vector<Handed> expand(Client& client, const engine::Deliver& command,
                             std::vector<std::uint64_t>& tokens);

  // ---- room
  RoomCheck::Asked asked_of(const Client& client) const;
  void ask_for_room(Client& client, std::uint32_t credits);
  void let_go(const Held& batch);
  std::vector<RoomCheck::Leftover> leftovers() const;
  std::vector<NodeId> preparing() const;
  std::vector<NodeId> may_prepare() const;
  void set_capacity(Place place, Bytes bytes);

  // ---- faults
  void plan_faults();
  void strike(const Fault& fault);
  void strike_node(const Fault& fault);
  void abandon_rank(Client& client, Rank rank);
  void strike_after_steps(const Client& client);
  Duration patience() const;
  void check_progress();
  bool can_be_asked_for(const Client& client) const;
  bool has_weights_policy(const JobPlan& plan) const;
  void talk_nonsense(std::uint64_t which);
  void lose_coordinator(Duration back_after);
  void start_engine();
  void note_promises();
  void write_promises();
  bool all_done() const;
  std::string describe_waits() const;
  Outcomes outcomes();

  const Scenario scenario_;
  const engine::PolicyList& policies_;
  Hooks hooks_;
  engine::Catalogues catalogues_;
  Machine machine_;
  RoomCheck room_;
  std::vector<RoomCheck::Leftover> let_go_;  // in this step
  std::unique_ptr<engine::Engine> engine_;
  std::uint64_t engine_incarnation_ = 0;
  bool engine_down_ = false;
  engine::EngineConfig config_;  // of the engine there is
  const bool chooses_;           // the scenario's selection policy chooses samples
  Random random_;

  struct Happening {
    Instant when;
    std::uint64_t serial;
    std::function<void()> what;
    bool operator<(const Happening& other) const {
      return std::pair(when, serial) > std::pair(other.when, other.serial);
    }
  };
  std::priority_queue<Happening> heap_;
  std::uint64_t serials_ = 0;
  Instant now_{};
  Duration longest_wait_{0};
  Instant end_{};  // when all jobs were done
  std::vector<engine::Event> facts_;
  std::vector<Completion> completions_;
  std::vector<engine::Event> last_facts_;  // of workers that go: what they have done comes before
  std::vector<RequestId> for_gone_;  // commands of this step for workers that it hears are quiet
  std::deque<std::vector<SampleId>> lists_;  // what events refer to
  std::deque<std::vector<engine::Score>> score_lists_;
  std::deque<std::vector<std::uint64_t>> part_lists_;
  std::deque<std::vector<NodeId>> node_lists_;
  std::deque<order::Position> positions_;
  std::deque<std::string> texts_;

  std::map<std::uint32_t, Source> sources_;  // by dataset
  std::vector<Node> nodes_;
  std::map<std::uint32_t, Worker> workers_;
  std::uint32_t next_worker_ = 1;
  std::map<std::uint64_t, Running> running_;
  std::vector<Client> clients_;
  std::uint32_t next_job_ = 1;
  std::map<std::uint32_t, std::size_t> client_of_;
  std::map<std::uint64_t, std::size_t> delivery_of_;  // request to client

  std::map<std::uint32_t, order::Position> promised_;  // what the engine's promises add up to
  log::Promises kept_promises_;                        // of the engine before
  log::PromiseLog promise_log_{8192};                  // the same, as it is written to a disk
  std::vector<std::byte> promise_bytes_;
  log::CommandDigest digest_;
  std::uint64_t steps_ = 0;
  std::uint64_t refusals_ = 0;
  std::uint64_t without_room_ = 0;
  std::uint64_t given_up_ = 0;
  engine::EngineCounters lost_counters_;
  Disturbances disturbances_;
};

}  // namespace batchflow::test
