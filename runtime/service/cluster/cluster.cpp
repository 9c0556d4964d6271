#include "runtime/service/cluster/cluster.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "runtime/feeds/feed_index.h"
#include "runtime/protocol/messages.h"
#include "runtime/service/cluster/node_connection.h"
#include "runtime/service/cluster/node_rank.h"
#include "runtime/service/jobs/refusals.h"
#include "runtime/service/service_version.h"

namespace batchflow::service {
namespace {

using remote::RemoteKind;
using remote::TcpChannel;

constexpr std::chrono::seconds kGreetWithin{10};
constexpr std::size_t kAgentsMost = 4096;

std::optional<AgentGreeting> read_greeting(TcpChannel& channel, std::string& problem) {
  const std::optional<std::string> text = read_node_message(channel, kGreetWithin, problem);
  if (!text) return std::nullopt;
  try {
    const NodeMessage message(*text);
    if (message.type() == "agent") return message.greeting();
    problem = fmt::format("a greeting of type '{}'", message.type());
  } catch (const MessageError& error) {
    problem = error.what();
  }
  return std::nullopt;
}

}  // namespace

Cluster::Cluster(Host host) : host_(std::move(host)), lost_nodes_(host_.silence) {}

Cluster::~Cluster() = default;

Cluster::Agent* Cluster::find(NodeId node) const {
  const auto found = agents_.find(node.value);
  return found == agents_.end() ? nullptr : found->second.get();
}

// -------------------------------------------------------------------------- coming and going ----

void Cluster::serve(TcpChannel& channel, const std::string& from) {
  std::string problem;
  std::optional<AgentGreeting> greeting = read_greeting(channel, problem);
  const auto link =
      std::make_shared<NodeLink>(host_.loop, channel, host_.silence, host_.unsent_most);
  if (greeting && greeting->protocol != kNodeProtocol) {
    problem = fmt::format(
        "the coordinator {} speaks version {} of the nodes' protocol, and the agent {} speaks "
        "version {}; install the same version on both",
        kServiceVersion, kNodeProtocol, greeting->version, greeting->protocol);
    greeting.reset();
  }
  Admission admission;
  if (greeting) {
    const std::string address = with_host(greeting->address, from);
    problem = host_.peers.reach_problem(address);
    if (!problem.empty()) {
      problem = fmt::format("this coordinator cannot reach '{}' at {}: {}", greeting->name, address,
                            problem);
      admission.may_ask_again = true;
      greeting.reset();
    }
  }
  if (greeting) {
    const auto made = on_service_thread<Admission>(
        host_.post, channel,
        [this, greeting = *greeting, from, link] { return admit(greeting, from, link); });
    if (made) {
      admission = *made;
      problem = made->problem;
    } else {  // it is gone, and may be let in after this
      host_.post([this, link, why = link->problem()] { lost(*link, why); });
    }
  }
  if (!admission.node.is_none()) {
    link->read(host_.post,
               [this, node = admission.node](NodeFrame frame) { take(node, std::move(frame)); });
    link->keep();
    problem = link->problem();
    host_.post([this, link, problem] { lost(*link, problem); });
  } else if (!problem.empty()) {
    host_.post([this, from, problem] { say_refusal(from, problem); });
    // An agent that knows a newer coordinator goes on looking for it.
    link->write(protocol::encode(protocol::Refused{
        admission.may_ask_again ? std::string(kNotYet) : "not_allowed", problem}));
    std::this_thread::sleep_for(2 * NodeLink::kBeat);  // so that it is sent
  }
  link->close();
}

// An agent that asks again and again is named once in the log.
void Cluster::say_refusal(const std::string& from, const std::string& problem) {
  if (std::exchange(said_refusal_, problem) == problem) return;
  host_.say(
      {fmt::format("an agent at {} was refused: {}", from, problem), LogLevel::warning, "agent"});
}

// Jobs would wait again and again for what is on the node. Without the node they go on.
void Cluster::unreachable(NodeId from, NodeId node, const std::string& problem) {
  const bool is_here = node == NodeId(0);  // then the node that says so is cut off
  Agent* const agent = find(is_here ? from : node);
  if (!agent) return;  // it is lost by now
  const Agent* const other = find(from);
  const std::string why = is_here
                              ? fmt::format("it cannot reach this coordinator: {}", problem)
                              : fmt::format("{} cannot reach it at {}: {}",
                                            other ? fmt::format("node '{}'", other->greeting.name)
                                                  : std::string("this coordinator"),
                                            agent->address, problem);
  lost_nodes_.keep_out(agent->greeting.name, why);
  const std::shared_ptr<NodeLink> link = agent->link;
  link->shut(why);
  lost(*link, why);
}

Cluster::Admission Cluster::admit(AgentGreeting greeting, const std::string& from,
                                  const std::shared_ptr<NodeLink>& link) {
  if (agents_.size() >= kAgentsMost)
    return {fmt::format("{} agents have joined, and no more may", kAgentsMost)};
  if (greeting.cores == 0 && greeting.memory == 0) return {"it has neither cores nor memory"};
  if (host_.term.is_before(greeting.term)) {
    const std::string why =
        fmt::format("'{}' has served term {}", greeting.name, greeting.term.number);
    host_.superseded(why);
    return {fmt::format("this is the coordinator of term {}, and {}", host_.term.number, why),
            NodeId::none(), true};
  }
  const auto same = std::find_if(agents_.begin(), agents_.end(), [&](const auto& one) {
    return one.second->greeting.name == greeting.name;
  });
  if (same != agents_.end()) {
    const Agent& other = *same->second;
    if (other.greeting.state != greeting.state)
      return {
          fmt::format("an agent called '{}' has joined already, from {}; give this one another "
                      "name (--name)",
                      greeting.name, other.address)};
    // The end of its last connection has not been noticed yet.
    const std::shared_ptr<NodeLink> before = other.link;
    before->shut("the agent has come back");
    lost(*before, "it has come back");
  }
  if (const std::string why = lost_nodes_.objection(greeting.name); !why.empty())
    return {fmt::format("{}; it is let in again after a while", why), NodeId::none(), true};
  lost_nodes_.joined(greeting.name);
  auto agent = std::make_unique<Agent>();
  const NodeId node(next_node_++);
  agent->node = node;
  agent->address = with_host(greeting.address, from);
  agent->greeting = std::move(greeting);
  agent->link = link;
  link->write(encode_welcome(node, host_.term, page_));
  link->write(encode(host_.users.quotas()));
  if (!own_address_.empty()) link->write(encode_peer(NodeId(0), own_address_));
  for (const auto& [id, other] : agents_) {
    link->write(encode_peer(other->node, other->address));
    other->link->write(encode_peer(node, agent->address));
  }
  host_.peers.set(node, agent->address);
  Agent& made = *(agents_[node.value] = std::move(agent));
  for (const auto& dataset : host_.datasets.all()) ask_for(made, *dataset);
  for (const auto& pipeline : host_.datasets.pipelines()) ask_for(made, *pipeline);
  host_.say(fmt::format("node {} '{}' at {}: {} cores, {} MiB; it opens {} datasets", node.value,
                        made.greeting.name, made.address, made.greeting.cores,
                        made.greeting.memory >> 20, host_.datasets.all().size()));
  if (const std::string note = other_version_note(made.greeting.version); !note.empty())
    host_.say({fmt::format("node {} '{}': {}", node.value, made.greeting.name, note),
               LogLevel::warning, "agent"});
  begin_if_ready(made);
  return {{}, node};
}

void Cluster::limits_changed() {
  for (const auto& [id, agent] : agents_) agent->link->write(encode(host_.users.quotas()));
}

void Cluster::ask_for(Agent& agent, const ServedDataset& dataset) {
  DatasetMessage message;
  message.id = dataset.id;
  message.asked = dataset.asked;
  message.part = dataset.part;
  message.name = dataset.name;
  message.version = dataset.index ? dataset.version : 0;
  message.listing = dataset.listing;
  if (const auto* feed = dynamic_cast<const feeds::FeedIndex*>(dataset.index.get()))
    message.feed = feeds::to_json(feed->settings());
  agent.unanswered.insert(dataset.id);
  agent.problems.erase(dataset.id);
  agent.link->write(encode(message));
}

// Only steps of users take their time, and an answer.
void Cluster::ask_for(Agent& agent, const ServedPipeline& pipeline) {
  PipelineMessage message;
  message.id = pipeline.id;
  message.dataset = pipeline.dataset;
  message.name = pipeline.name;
  message.hash = pipeline.hash;
  if (pipeline.pipeline) {
    message.text = pipeline.text.yaml;
    message.file = pipeline.text.file;
    if (pipeline.text.functions_of) message.user = *pipeline.text.functions_of;
    if (!pipeline.pipeline->plugins().empty()) agent.unanswered.insert(pipeline.id);
  }
  agent.problems.erase(pipeline.id);
  agent.link->write(encode(message));
}

void Cluster::begin_if_ready(Agent& agent) {
  if (agent.ready || !agent.unanswered.empty()) return;
  agent.ready = true;
  host_.inbox.add(engine::NodeJoined{agent.node, agent.greeting.cores});
  host_.inbox.add(engine::CapacityChanged{{agent.node, Tier::dram, 0}, agent.greeting.memory});
  if (agent.drive > 0)
    host_.inbox.add(engine::CapacityChanged{{agent.node, Tier::nvme, 0}, agent.drive});
  pass_on_kept(agent);
  host_.say(fmt::format("node {} '{}' has joined", agent.node.value, agent.greeting.name));
}

void Cluster::lost(const NodeLink& link, const std::string& why) {
  const auto found = std::find_if(agents_.begin(), agents_.end(),
                                  [&](const auto& one) { return one.second->link.get() == &link; });
  if (found == agents_.end()) return;
  const std::unique_ptr<Agent> agent = std::move(found->second);
  const NodeId node = agent->node;
  agents_.erase(found);
  host_.say({fmt::format("node {} '{}' is lost: {}; {} ranks were there", node.value,
                         agent->greeting.name, why, agent->ranks.size()),
             LogLevel::warning, "agent"});
  for (const auto& [number, rank] : agent->ranks) host_.jobs.away(*rank);
  while (!agent->ranks.empty()) end_rank(*agent, agent->ranks.begin()->first);
  if (agent->ready) host_.inbox.add(engine::NodeLost{node});
  routes_.lost(node);
  there_.erase(node.value);
  host_.peers.remove(node);
  for (const auto& [id, other] : agents_) other->link->write(encode_peer(node, {}));
  look_at_waiting();
  if (!agent->leaving) look_at_majority(agent->greeting.name);
}

// A coordinator that is cut off with the smaller part of the nodes stops. If the others have
// ended, it takes the next term.
void Cluster::look_at_majority(const std::string& lost) {
  if (host_.term.cluster.empty()) return;
  const std::size_t gone = lost_nodes_.lost(lost);
  const std::size_t here = agents_.size() + 1;
  if (here >= gone) return;
  host_.superseded(fmt::format("{} of {} nodes are gone at once", gone, gone + here));
}

// ------------------------------------------------------------------------ datasets, pipelines ----

void Cluster::added(const ServedDataset& dataset) {
  for (const auto& [id, agent] : agents_) ask_for(*agent, dataset);
}

void Cluster::added(const ServedPipeline& pipeline) {
  for (const auto& [id, agent] : agents_) ask_for(*agent, pipeline);
}

void Cluster::gone(PipelineId pipeline) {
  for (const auto& [id, agent] : agents_) {
    agent->unanswered.erase(pipeline);
    agent->problems.erase(pipeline);
    agent->link->write(encode_pipeline_gone(pipeline));
    begin_if_ready(*agent);
  }
}

bool Cluster::waits_for(ServedId what, std::function<void(const std::string&)> then) {
  const bool all = std::all_of(agents_.begin(), agents_.end(), [&](const auto& one) {
    const Agent& agent = *one.second;
    return !agent.ready || (!agent.unanswered.contains(what) && !agent.problems.contains(what));
  });
  if (all) return false;
  waiting_.push_back({what, std::move(then)});
  host_.post([this] { look_at_waiting(); });  // one may have failed already
  return true;
}

void Cluster::look_at_waiting() {
  for (Waiting& one : std::exchange(waiting_, {})) {
    bool all = true;
    std::string problem;
    for (const auto& [id, agent] : agents_) {
      if (!agent->ready) continue;
      if (agent->unanswered.contains(one.what)) all = false;
      if (const auto found = agent->problems.find(one.what); found != agent->problems.end())
        problem = fmt::format("node '{}': {}", agent->greeting.name, found->second);
    }
    if (all || !problem.empty()) {
      one.then(problem);
    } else {
      waiting_.push_back(std::move(one));
    }
  }
}

void Cluster::take_opened(Agent& agent, ServedId what, const std::string& problem) {
  const bool was_waited_for = agent.unanswered.erase(what) > 0;
  if (problem.empty()) {
    agent.problems.erase(what);
  } else {
    agent.problems[what] = problem;
  }
  // A dataset or pipeline that is not waited for was let go since, or is no reason to leave the
  // node out.
  if (!problem.empty() && !agent.ready && was_waited_for) {
    // If it joined, it would be asked to read and prepare what it has not got.
    const bool is_data = std::holds_alternative<DatasetId>(what);
    agent.link->write(
        protocol::encode(protocol::Refused{is_data ? "bad_dataset" : "unknown_pipeline", problem}));
    host_.say({fmt::format("node {} '{}' cannot join: {}", agent.node.value, agent.greeting.name,
                           problem),
               LogLevel::warning, "agent"});
    return;
  }
  begin_if_ready(agent);
  look_at_waiting();
}

// ------------------------------------------------------------------------ what agents report ----

void Cluster::take(NodeId node, NodeFrame frame) {
  Agent* const agent = find(node);
  if (!agent) return;  // it is lost, and this came before
  try {
    switch (frame.kind) {
      case RemoteKind::text:
        return take_message(*agent, NodeMessage(frame.text()));
      case RemoteKind::record:
        return take_record(*agent, frame.bytes);
      case RemoteKind::payload:
        return take_events(*agent, frame.bytes);
    }
  } catch (const MessageError& error) {
    agent->link->shut(fmt::format("it sent nonsense: {}", error.what()));
  }
}

void Cluster::take_message(Agent& agent, const NodeMessage& message) {
  if (message.type() == "opened")
    return take_opened(agent, DatasetId(static_cast<std::uint32_t>(message.number("dataset"))),
                       message.text("problem"));
  if (message.type() == "set_up")
    return take_opened(agent, message.pipeline_id(), message.text("problem"));
  if (message.type() == "rank") return take_rank(agent, message.rank());
  if (message.type() == "counters") {
    agent.counters = message.counters();
    return;
  }
  if (message.type() == "unreachable")
    return unreachable(agent.node, message.node(), message.text("problem"));
  if (message.type() == "leaving") {
    agent.leaving = true;
    host_.say(fmt::format("node {} '{}' is to end: it hands over what it keeps", agent.node.value,
                          agent.greeting.name));
    if (!agent.ready) return agent.link->write(encode_let_go());
    return host_.inbox.add(engine::NodeQuiesced{agent.node});
  }
  throw MessageError(fmt::format("a message of type '{}'", message.type()));
}

void Cluster::take_rank(Agent& agent, const RankMessage& message) {
  if (message.frame.empty()) return end_rank(agent, message.rank);
  std::shared_ptr<NodeRank>& rank = agent.ranks[message.rank];
  if (!rank) {
    if (!message.user) throw MessageError("a rank without a user");
    rank = std::make_shared<NodeRank>(agent.node, message.rank, agent.link, agent.greeting.name);
    rank->set_user(static_cast<uid_t>(*message.user));
  }
  rank->add_shown(message.shown);
  const std::shared_ptr<NodeRank> stays = rank;
  if (!agent.ready)  // the engine does not know the node yet
    return refuse(*stays, kNotYet, "this node opens its datasets; ask again");
  std::string problem;
  if (host_.on_frame(*stays, message.frame, problem)) return;
  stays->send(protocol::encode(protocol::Refused{"protocol", problem}), {});
  stays->end();
}

void Cluster::end_rank(Agent& agent, std::uint32_t rank) {
  const auto found = agent.ranks.extract(rank);
  if (found) host_.on_end(*found.mapped());
}

void Cluster::take_record(Agent& agent, std::span<const std::byte> bytes) {
  const std::optional<RankRecordHead> head = rank_record_head(bytes);
  if (head && head->word == RankWord::held)
    return host_.jobs.held(agent.node, JobId(head->rank), head->a);
  if (!head || head->word != RankWord::record) throw MessageError("a record of no rank");
  const auto found = agent.ranks.find(head->rank);
  if (found == agent.ranks.end()) return;  // it has ended meanwhile
  const std::shared_ptr<NodeRank> rank = found->second;
  if (host_.jobs.take_record(*rank, bytes.subspan(sizeof *head))) return;
  rank->send(protocol::encode(protocol::Refused{
                 "protocol",
                 "the client wrote a record that this version does not know; the service ended "
                 "the job"}),
             {});
  rank->end();
}

// Only what the agent was asked to do counts as done.
template <class Done>
void Cluster::take_done(const Agent& agent, Done done) {
  if (!routes_.done(agent.node, done)) return;
  if constexpr (requires { done.failed; })
    done.failed = host_.inbox.keep(std::vector<SampleId>(done.failed.begin(), done.failed.end()));
  host_.inbox.add(done);
}

// Steps of users take memory of the node's own for their processes, and drives fail.
void Cluster::take_capacity(Agent& agent, const engine::CapacityChanged& change) {
  if (change.place == Place{agent.node, Tier::dram, 0}) {
    agent.greeting.memory = change.bytes;
  } else if (change.place == Place{agent.node, Tier::nvme, 0}) {
    agent.drive = change.bytes;
  } else {
    throw MessageError("a place that is none of the node's");
  }
  if (agent.ready) host_.inbox.add(change);
}

void Cluster::take_kept(Agent& agent, const engine::SamplesKept& kept) {
  constexpr std::size_t kKeptMost = 1 << 16;  // events
  if (kept.place.node != agent.node || !host_.datasets.knows(kept.dataset) ||
      kept.samples.size() > engine::kSamplesKeptMost || agent.kept.size() == kKeptMost)
    throw MessageError("samples that it cannot have kept");
  agent.kept.emplace_back(kept, std::vector<SampleId>(kept.samples.begin(), kept.samples.end()));
  agent.kept.back().first.samples = {};
  if (agent.ready) pass_on_kept(agent);
}

void Cluster::pass_on_kept(Agent& agent) {
  for (auto& [kept, samples] : std::exchange(agent.kept, {})) {
    kept.samples = host_.inbox.keep(std::move(samples));
    host_.inbox.add(kept);
  }
}

void Cluster::take_events(Agent& agent, std::span<const std::byte> bytes) {
  const auto step = agent.events.step(bytes);
  if (!step) throw MessageError("events that cannot be read");
  for (const engine::Event& event : step->events) {
    if (const auto* read = std::get_if<engine::ReadDone>(&event)) {
      take_done(agent, *read);
    } else if (const auto* made = std::get_if<engine::PreparationDone>(&event)) {
      take_done(agent, *made);
    } else if (const auto* moved = std::get_if<engine::TransferDone>(&event)) {
      take_done(agent, *moved);
    } else if (const auto* come = std::get_if<engine::WorkerJoined>(&event)) {
      host_.inbox.add(engine::WorkerJoined{routes_.joined(agent.node, come->worker), agent.node});
    } else if (const auto* quiet = std::get_if<engine::WorkerQuiesced>(&event)) {
      const WorkerId worker = routes_.quiesced(agent.node, quiet->worker);
      if (!worker.is_none()) host_.inbox.add(engine::WorkerQuiesced{worker});
    } else if (const auto* change = std::get_if<engine::CapacityChanged>(&event)) {
      take_capacity(agent, *change);
    } else if (const auto* measured = std::get_if<engine::DecodedMeasured>(&event)) {
      host_.inbox.add(*measured);
    } else if (const auto* kept = std::get_if<engine::SamplesKept>(&event)) {
      take_kept(agent, *kept);
    } else {
      throw MessageError("an event that is none of a node's");
    }
  }
}

// ---------------------------------------------------------------------------------- commands ----

void Cluster::deliver(const engine::Deliver& command) {
  const bool well = host_.commands.deliver(command, nullptr, 0);
  host_.inbox.add(engine::DeliveryDone{command.request,
                                       well ? engine::Outcome::done : engine::Outcome::failed});
  if (!well) return;
  ++delivered_.batches;
  for (const order::Slice& slice : command.slices) delivered_.samples += slice.to - slice.from;
}

void Cluster::carry_out(std::span<const engine::Command> commands, Backend& backend) {
  if (agents_.empty() && routes_.empty()) return backend.carry_out(commands);
  here_.clear();
  for (const engine::Command& command : commands) {
    const NodeId node = routes_.node_of(command);
    if (node == NodeId(0)) {
      here_.push_back(command);
    } else if (const auto* delivery = std::get_if<engine::Deliver>(&command)) {
      deliver(*delivery);
    } else if (Agent* const agent = find(node)) {
      if (std::holds_alternative<engine::LetGo>(command)) {
        agent->link->write(encode_let_go());
        continue;
      }
      there_[node.value].push_back(routes_.hand_over(node, command));
    }  // else the engine hears in its next step that the node is lost
  }
  for (auto& [node, list] : there_) {
    if (list.empty()) continue;
    std::vector<std::byte> bytes;
    log::encode(list, bytes);
    if (Agent* const agent = find(NodeId(node))) agent->link->write(RemoteKind::payload, bytes);
    list.clear();
  }
  backend.carry_out(here_);
}

std::size_t Cluster::ready() const {
  return static_cast<std::size_t>(std::count_if(agents_.begin(), agents_.end(),
                                                [](const auto& one) { return one.second->ready; }));
}

std::vector<NodeStatus> Cluster::status() const {
  std::vector<NodeStatus> all;
  for (const auto& [id, one] : agents_)
    all.push_back({one->node.value, one->greeting.name, one->address, one->greeting.version,
                   one->greeting.cores, one->greeting.memory, one->drive, one->ranks.size(),
                   one->ready, one->counters});
  return all;
}

}  // namespace batchflow::service
