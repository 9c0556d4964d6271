// Orders that no job can have, ranks that do not agree, and exemplars that no rank may send.
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"
#include "tests/runtime/service/command.h"
#include "tests/runtime/service/joining_by_hand.h"
#include "tests/runtime/service/live_orders.h"

namespace batchflow::test::order_refusals_test {
namespace {

using namespace live_orders;

// Whether the service lets a job by hand stay that has sent the record. `ends`: it should not.
bool stays(const Rows& rows, const protocol::JoinRequest& request,
           std::span<const std::byte> record, bool ends) {
  std::string problem;
  protocol::Channel channel = protocol::Channel::connect(rows.config.socket, problem);
  const auto soon = protocol::Channel::Clock::now() + std::chrono::seconds(20);
  REQUIRE(channel.send(
      protocol::encode(protocol::Hello{protocol::kProtocolVersion, "by hand", 1, ""}), {}, soon));
  REQUIRE(channel.receive(soon));
  REQUIRE(channel.send(protocol::encode(request), {}, soon));
  auto frame = channel.receive(soon);
  REQUIRE(frame);
  const auto answer = protocol::decode_join_answer(frame->text, problem);
  REQUIRE_MESSAGE(answer, frame->text);
  const protocol::Rings rings = protocol::map_rings(frame->descriptors[0], frame->descriptors[1],
                                                    answer->ring_bytes, problem);
  REQUIRE_MESSAGE(rings, problem);
  protocol::RingWriter writer(rings.from_job());
  REQUIRE(writer.write(record));
  if (writer.publish()) protocol::ring_doorbell(frame->descriptors[2]);
  const auto until = ends ? soon : protocol::Channel::Clock::now() + std::chrono::milliseconds(300);
  while (channel.receive(until)) {  // why it ends
  }
  return channel.is_open();
}

TEST_CASE("orders that no job can have are refused, and the error says what to write") {
  const Rows rows;
  const LiveService service(rows.config);
  const std::vector<std::uint64_t> keys = exemplars(3, 7);
  const auto refused = [&](bf_order order, auto change, std::string_view why) {
    bf_loader_options options = rows.options(order);
    change(options);
    const Given given = read(options, 1);
    CHECK_MESSAGE(given.wrong.find(why) != std::string::npos, given.wrong);
    // The same in a message of a client that does not check.
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = options.batch_samples;
    request.order = order == BF_STRICT     ? Order::strict
                    : order == BF_WEIGHTED ? Order::weighted
                    : order == BF_LIVE     ? Order::live
                                           : Order::relaxed;
    request.order_options = {options.draws, options.drawing == BF_MULTINOMIAL,
                             options.node_local != 0, options.runs != 0, options.rehearsed};
    request.order_options.fills_from = options.fills_from;
    request.order_options.fills_cut = options.fills_cut != 0;
    request.order_options.buffer_exemplars = options.buffer_exemplars;
    if (options.buffer_policy) request.order_options.buffer_policy = options.buffer_policy;
    for (std::size_t i = 0; i < options.exemplars_count; ++i)
      request.exemplars.emplace_back(options.exemplars[i]);
    ByHand client(rows.config.socket);
    REQUIRE(client.ask(request));
    const std::string answer = client.hear({"admitted", "refused"});
    CHECK_MESSAGE(answer.find(why) != std::string::npos, answer);
  };
  using Options = bf_loader_options;
  refused(
      BF_STRICT, [](Options& o) { o.draws = 9; }, "a strict order has each sample once");
  refused(
      BF_RELAXED, [](Options& o) { o.drawing = BF_MULTINOMIAL; }, "a relaxed order is not drawn");
  refused(
      BF_WEIGHTED, [](Options& o) { o.draws = (1ull << 31) + 1; }, "2147483648 draws");
  refused(
      BF_STRICT, [](Options& o) { o.node_local = 1; }, "'node_local' is for a relaxed order");
  refused(
      BF_STRICT, [](Options& o) { o.runs = 1; }, "'runs' is for a relaxed order");
  refused(
      BF_WEIGHTED, [](Options& o) { o.rehearsed = 1; }, "and this one is weighted");
  refused(
      BF_LIVE, [](Options& o) { o.rehearsed = 1; },
      "steps of this live job have new records alone");
  refused(
      BF_LIVE, [](Options& o) { o.rehearsed = 9, o.fills_from = 9, o.fills_cut = 1; },
      "steps of this live job are short");
  refused(
      BF_LIVE, [](Options& o) { o.rehearsed = 32, o.fills_from = 9; }, "no room for new samples");
  refused(
      BF_LIVE,
      [&](Options& o) {
        o.rehearsed = 1, o.fills_from = 9, o.exemplars = keys.data(), o.exemplars_count = 3;
      },
      "a list of exemplars is for datasets that do not grow");
  refused(
      BF_LIVE,
      [](Options& o) {
        o.rehearsed = 1, o.fills_from = 9, o.buffer_exemplars = 8, o.buffer_policy = "reservoir";
      },
      "'fills_from' is 9, and the job rehearses from 8 exemplars");
  refused(
      BF_LIVE,
      [](Options& o) { o.rehearsed = 1, o.buffer_exemplars = 8, o.buffer_policy = "per-class"; },
      "write 'reservoir' as the policy");
  refused(
      BF_LIVE, [](Options& o) { o.buffer_exemplars = 8, o.buffer_policy = "reservoir"; },
      "'rehearsed' is 0");
  refused(
      BF_STRICT, [](Options& o) { o.rehearsed = 32; }, "no room for new samples");
  refused(
      BF_STRICT, [&](Options& o) { o.exemplars = keys.data(), o.exemplars_count = 3; },
      "write how many samples of each batch");
  const std::uint64_t beyond = kRows;
  refused(
      BF_STRICT, [&](Options& o) { o.rehearsed = 1, o.exemplars = &beyond, o.exemplars_count = 1; },
      "write keys below 5000");
  CHECK(command(rows.config.socket, "status").at("protocol_errors") == 0);
}

TEST_CASE("a buffer with a policy that is none is refused with the one that was meant") {
  const Rows rows;
  const LiveService service(rows.config);
  bf_loader_options options = rows.options(BF_RELAXED);
  options.rehearsed = 2;
  options.buffer_exemplars = 8;
  options.buffer_policy = "reservor";
  const Given given = read(options, 1);
  CHECK_MESSAGE(given.wrong.find("'reservoir'") != std::string::npos, given.wrong);
  CHECK_MESSAGE(given.wrong.find("batch size") == std::string::npos, given.wrong);
}

TEST_CASE("a keyed job that asks for more than it may ends alone") {
  const Rows rows;
  const LiveService service(rows.config);
  // Beyond its credits; of a job that is not keyed; as many as it may.
  for (const auto& [keyed, count, ends] :
       {std::tuple(true, 5, true), {false, 1, true}, {true, 2, false}}) {
    CAPTURE(count);
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = 1;
    request.credits = 2;
    request.order = keyed ? Order::live : Order::strict;
    request.order_options.keyed = keyed;
    std::vector<std::byte> record;
    protocol::write_keys(std::vector<SampleId>(static_cast<std::size_t>(count), SampleId(1)),
                         record);
    CHECK(stays(rows, request, record, ends) != ends);
  }
  CHECK(command(rows.config.socket, "status").at("protocol_errors") == 0);
  bf_loader_options options = rows.options(BF_RELAXED);
  options.epochs = 1;
  CHECK(read(options).wrong == "");
}

TEST_CASE("ranks that ask for different orders are told in what they differ") {
  const Rows rows;
  const LiveService service(rows.config);
  const std::vector<std::uint64_t> keys = exemplars(3, 7);
  const auto differ = [&](auto change, std::string_view what) {
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = 32;
    request.job = fmt::format("job of {}", what);
    request.world_size = 2;
    request.order_options.rehearsed = 2;
    request.exemplars = {SampleId(1), SampleId(2)};
    ByHand one(rows.config.socket);
    REQUIRE(one.ask(request));
    // The first is here before the second comes.
    const auto is_here = [&] {
      return command(rows.config.socket, "status").dump().find(request.job) != std::string::npos;
    };
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_here() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    request.rank = 1;
    change(request);
    ByHand other(rows.config.socket);
    REQUIRE(other.ask(request));
    const std::string answer = other.answer();
    CHECK_MESSAGE(answer.find(what) != std::string::npos, answer);
  };
  using Request = protocol::JoinRequest;
  differ([](Request& r) { r.batch_samples = 16; }, "batches of 32 and 16; start all");
  differ([](Request& r) { r.order = Order::strict; }, "order relaxed and strict; start all");
  differ([](Request& r) { r.order_options.node_local = true; }, "node_local false and true;");
  differ([](Request& r) { r.order_options.runs = true; }, "runs false and true;");
  differ([](Request& r) { r.order_options.rehearsed = 3; }, "rehearsed 2 and 3;");
  differ([](Request& r) { r.exemplars.pop_back(); }, "do not agree: the exemplars;");
}

TEST_CASE("exemplars that no rank may send end its connection, and nothing else") {
  const Rows rows;
  const LiveService service(rows.config);
  struct Part {
    std::uint32_t rank;
    std::vector<SampleId> samples;
    std::uint32_t first;
    std::uint32_t rehearsed;
    bool is_taken;
  };
  for (const Part& part :
       {Part{0, {SampleId(7)}, 0, 2, true}, Part{0, {SampleId(kRows)}, 0, 2, false},
        Part{0, {SampleId(7)}, 1, 2, false}, Part{0, {SampleId(7)}, 0, 0, false},
        Part{0, {SampleId(7)}, UINT32_MAX, 2, false}}) {
    CAPTURE(part.first);
    CAPTURE(part.rehearsed);
    protocol::JoinRequest request;
    request.dataset = "rows";
    request.batch_samples = 32;
    request.order_options.rehearsed = part.rehearsed;
    std::vector<std::byte> record;
    protocol::write_exemplars(part.samples, part.first, false, record);
    CHECK(stays(rows, request, record, !part.is_taken) == part.is_taken);
  }
  CHECK(command(rows.config.socket, "status").at("protocol_errors") == 0);
  bf_loader_options options = rows.options(BF_RELAXED);
  options.epochs = 1;
  CHECK(read(options).wrong == "");
}

}  // namespace
}  // namespace batchflow::test::order_refusals_test
