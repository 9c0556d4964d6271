// Messages and records: what one side writes the other reads, and bytes that cannot be right are
// refused.
#include "runtime/protocol/messages.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "core/base/byte_codec.h"
#include "core/order/index_set.h"
#include "runtime/protocol/records.h"

namespace batchflow::test::messages_test {

namespace {

// A join message in which one field has another value.
std::string join_with(std::string_view field, std::string_view value) {
  protocol::JoinRequest request;
  request.dataset = "things";
  std::string text = protocol::encode(request);
  const std::string name = "\"" + std::string(field) + "\":";
  const std::size_t at = text.find(name) + name.size();
  const std::size_t end = text.find_first_of(",}", at);
  return text.replace(at, end - at, value);
}

}  // namespace

TEST_CASE("messages: a join comes out as it went in, to the last bit") {
  protocol::JoinRequest request;
  request.dataset = "/data/\xc3\xa4\"\\";
  request.shuffle_seed = std::numeric_limits<std::uint64_t>::max();
  request.order = Order::sequential;
  request.weight = 0.1;
  request.latency_target_s = 0.3;
  request.rank = 3;
  request.world_size = 4;
  request.state = R"({"v":1})";
  request.pipeline_hash = 0x8000000000000001;
  request.rejoins = true;
  request.corrupt_ratio_max = 0.05;
  request.allows_ideal = true;
  request.order_options = {std::uint64_t{1} << 31,
                           true,
                           true,
                           true,
                           7,
                           {{"web", 0.1}, {"a b/c\u00e9", 1e300}},
                           true,
                           true,
                           200,
                           "per-class:samples=3",
                           "a b"};
  request.order_options.schedule = {{5, {0.25, 3}}, {std::uint64_t{1} << 61, {0, 1}}};
  request.order_options.weights_policy = "softmax:every=5";
  request.exemplars = {SampleId(3), SampleId(std::numeric_limits<std::uint64_t>::max())};
  std::string problem;
  const auto read = protocol::decode_join(protocol::encode(request), problem);
  REQUIRE_MESSAGE(read, problem);
  CHECK(read->dataset == request.dataset);
  CHECK(read->shuffle_seed == request.shuffle_seed);
  CHECK(read->order == request.order);
  CHECK(read->weight == request.weight);
  CHECK(read->latency_target_s == request.latency_target_s);
  CHECK(read->state == request.state);
  CHECK(read->pipeline_hash == request.pipeline_hash);
  CHECK(read->corrupt_ratio_max == request.corrupt_ratio_max);
  CHECK(read->allows_ideal);
  CHECK(read->order_options == request.order_options);
  CHECK(read->exemplars == request.exemplars);
  CHECK(protocol::encode(*read) == protocol::encode(request));
}

TEST_CASE("messages: wrong values are refused by name") {
  std::string problem;
  const auto says = [&](const std::string& frame, std::string_view what) {
    problem.clear();
    CHECK_FALSE(protocol::decode_join(frame, problem));
    CHECK_MESSAGE(problem.find(what) != std::string::npos, problem);
  };
  says(join_with("rank", "-1"), "'rank'");
  says(join_with("latency_target_s", "-1"), "'latency_target_s'");
  says(join_with("latency_target_s", "3601"), "'latency_target_s'");
  says(join_with("latency_target_s", "\"1\""), "'latency_target_s'");
  says(join_with("rank", "1"), "below 'world_size'");
  says(join_with("rank", "4294967296"), "'rank'");
  says(join_with("rank", "0.5"), "'rank'");
  says(join_with("batch_samples", "0"), "at least 1");
  says(join_with("dataset", "\"\""), "'dataset'");
  says(join_with("dataset", "7"), "must be a string");
  says(join_with("dataset", R"("a\u0000b")"), "zero");
  says(join_with("order", "\"any\""), "no order 'any'");
  says(join_with("draws", "-1"), "'draws'");
  says(join_with("multinomial", "1"), "'multinomial' must be true or false");
  says(join_with("node_local", "\"yes\""), "'node_local' must be true or false");
  says(join_with("runs", "1"), "'runs' must be true or false");
  says(join_with("rehearsed", "4294967296"), "'rehearsed'");
  says(join_with("rehearsed", "1,\"exemplars\":7"), "'exemplars' must be a list of at most 65536");
  says(join_with("rehearsed", "1,\"exemplars\":[-7]"), "'exemplars' must be a list of integers");
  std::string many(2 * 65537, '1');
  for (std::size_t i = 1; i < many.size(); i += 2) many[i] = ',';
  many.back() = ']';
  says(join_with("rehearsed", "1,\"exemplars\":[" + many), "'exemplars' must be a list of at most");
  says(join_with("weight", "-1"), "'weight'");
  says(join_with("weight", "1e999"), "number");
  says(join_with("drop_last", "1"), "true or false");
  says(join_with("type", "\"leave\""), "its type is 'leave', not 'join'");
  says(std::string(500'000, '['), "deep");
  says("[]", "not an object");
  says("", "message");
  says("{\"type\":\"join\"", "message");
  says("\"\xff\"", "message");
}

TEST_CASE("messages: a long text of the other side still fits a frame when it is quoted") {
  std::string problem;
  const std::string text(protocol::kFrameMost, 'x');
  CHECK(protocol::message_type(fmt::format(R"({{"type":"{}"}})", text), problem).empty());
  CHECK(problem.size() < 1000);
  const std::string hello = R"({{"type":"hello","protocol":3,"version":"{}"}})";
  CHECK_FALSE(protocol::decode_hello(fmt::format(fmt::runtime(hello), text), problem));
  CHECK(protocol::decode_hello(fmt::format(fmt::runtime(hello), "0.2.0"), problem));
  CHECK(
      protocol::encode(protocol::Refused{"bad_request", std::string(protocol::kFrameMost, '\x01')})
          .size() <= protocol::kFrameMost);
}

TEST_CASE("messages: ratios of corrupt samples are parts of the whole") {
  protocol::JoinRequest request;
  request.dataset = "things";
  for (const double ratio : {-0.1, 1.1}) {
    request.corrupt_ratio_max = ratio;
    std::string problem;
    CHECK_FALSE(protocol::decode_join(protocol::encode(request), problem));
    CHECK(problem.find("'corrupt_ratio_max' must be a number from 0 to 1") != problem.npos);
  }
}

TEST_CASE("messages: what is asked about samples and waits, and its answers") {
  std::string problem;
  const auto sum = protocol::decode_samples_sum(
      protocol::encode(protocol::SamplesSum{7, 4096, 1, 2, 0x100000000}), problem);
  REQUIRE_MESSAGE(sum, problem);
  CHECK(sum->first == 7);
  CHECK(sum->count == 4096);
  CHECK(sum->pairs == 0x100000000);
  for (const std::uint64_t count : {0, 4097}) {
    CHECK_FALSE(
        protocol::decode_samples_sum(protocol::encode(protocol::SamplesSum{0, count}), problem));
    CHECK(problem.find("'count'") != problem.npos);
  }
  const auto question =
      protocol::decode_waiting(protocol::encode(protocol::WaitingMessage{}), problem);
  REQUIRE(question);
  CHECK_FALSE(question->message);
  const auto answer =
      protocol::decode_waiting(protocol::encode(protocol::WaitingMessage{""}), problem);
  REQUIRE(answer);
  CHECK(answer->message == "");  // none holds it up
}

TEST_CASE("messages: strings that are not UTF-8 are sent with their bad bytes replaced") {
  std::string problem;
  const auto read = protocol::decode_refused(
      protocol::encode(protocol::Refused{"bad", "file \xff is odd"}), problem);
  REQUIRE_MESSAGE(read, problem);
  CHECK(read->message == "file \xef\xbf\xbd is odd");
}

TEST_CASE("messages: an admission with impossible batches is refused") {
  protocol::JoinAnswer admission;
  admission.dataset_samples = 10;
  admission.credits = 2;
  admission.ring_bytes = 1 << 17;
  admission.spec.fields = {{"image", batch::ElementType::f32, {3, 4}, false}};
  admission.order_options = {5, true, false, false, 2};
  std::string problem;
  const auto read = protocol::decode_join_answer(protocol::encode(admission), problem);
  REQUIRE_MESSAGE(read, problem);
  CHECK(read->spec == admission.spec);
  CHECK(read->order_options == admission.order_options);
  admission.spec.fields[0].shape[0] = 0;
  CHECK_FALSE(protocol::decode_join_answer(protocol::encode(admission), problem));
  CHECK(problem.find("dimension of zero") != std::string::npos);
}

TEST_CASE("records: counts that do not add up are refused") {
  const std::vector<order::Slice> slices{{{1, 2, 3, 4}, 5, 9}, {{1, 2, 3, 4}, 5, 6, true}};
  protocol::BatchRecord batch;
  batch.slot_samples = 8;
  batch.from = 3;
  batch.samples = 5;
  batch.fillers = 1;
  batch.own = 2;
  std::vector<std::byte> bytes;
  protocol::ServiceMessage out;
  std::string problem;
  const auto reads = [&](auto change) {
    protocol::BatchRecord changed = batch;
    change(changed);
    protocol::write_batch(changed, slices, bytes);
    return protocol::read_service_record(bytes, out, problem);
  };
  REQUIRE_MESSAGE(reads([](auto&) {}), problem);
  REQUIRE(out.slices.size() == 2);
  CHECK(out.slices[0].name == slices[0].name);
  CHECK(out.slices[1].filler);
  CHECK_FALSE(reads([](auto& b) { b.samples = 6; }));
  CHECK_FALSE(reads([](auto& b) { b.fillers = 0; }));
  CHECK_FALSE(reads([](auto& b) { b.rehearsed = 1; }));
  CHECK_FALSE(reads([](auto& b) { b.from = 4; }));
  CHECK_FALSE(reads([](auto& b) { b.from = ~0u; }));
  CHECK_FALSE(reads([](auto& b) { b.last_of_epoch = 2; }));
  CHECK_FALSE(reads([](auto& b) { b.offset = 8; }));
  CHECK_FALSE(reads([](auto& b) { b.own = 3; }));
  CHECK_FALSE(reads([](auto& b) { b.own_from = 1; }));
  CHECK_FALSE(reads([](auto& b) { b.own_from = ~0u; }));
  CHECK_FALSE(reads([](auto& b) { b.whole_step = 2; }));
  protocol::write_batch(batch, slices, bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(protocol::read_service_record(std::span(bytes).first(size), out, problem));
}

TEST_CASE("records: ideal steps come out as they went in, if they can be") {
  protocol::ServiceMessage out;
  std::string problem;
  protocol::IdealRecord record;
  const auto reads = [&](std::uint64_t steps) {
    record.steps = steps;
    return protocol::read_service_record(protocol::bytes_of(record), out, problem);
  };
  REQUIRE_MESSAGE(reads(protocol::kIdealStepsMost), problem);
  CHECK(out.kind == protocol::ServiceRecordKind::ideal);
  CHECK(out.ideal.steps == protocol::kIdealStepsMost);
  CHECK_FALSE(reads(0));
  CHECK_FALSE(reads(protocol::kIdealStepsMost + 1));
  record.steps = 1;
  CHECK_FALSE(protocol::read_service_record(protocol::bytes_of(record).first(sizeof record - 1),
                                            out, problem));

  const protocol::JobRecord took{protocol::JobRecordKind::ideal, 0, 75, 1'000'000, 0};
  protocol::JobMessage answer;
  REQUIRE_MESSAGE(protocol::read_job_record(protocol::bytes_of(took), answer, problem), problem);
  CHECK(answer.record.step == 75);
  CHECK(answer.record.compute_ns == 1'000'000);
}

TEST_CASE("records: a part of a buffer comes out as it went in, and no other is one") {
  const std::vector<SampleId> part(protocol::kExemplarsInRecord, SampleId(1ull << 40));
  std::vector<std::byte> bytes;
  protocol::JobMessage out;
  std::string problem;
  protocol::write_exemplars(part, 65'024, true, bytes);
  REQUIRE_MESSAGE(protocol::read_job_record(bytes, out, problem), problem);
  CHECK(out.record.kind == protocol::JobRecordKind::exemplars);
  CHECK(out.part.first == 65'024);
  CHECK(out.part.more == 1);
  CHECK(out.exemplars == part);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(protocol::read_job_record(std::span(bytes).first(size), out, problem));
  bytes[12] = std::byte{2};  // `more`
  CHECK_FALSE(protocol::read_job_record(bytes, out, problem));
  bytes.resize(bytes.size() + 8);
  bytes[12] = std::byte{1};
  bytes[5] = std::byte{3};  // a count of 768
  bytes.resize(16 + 768 * 8);
  CHECK_FALSE(protocol::read_job_record(bytes, out, problem));
  protocol::write_exemplars({}, 0, false, bytes);
  REQUIRE(protocol::read_job_record(bytes, out, problem));
  CHECK(out.exemplars.empty());
}

TEST_CASE("records: what a network makes of samples") {
  protocol::Described described{3, {SampleId(1ull << 40), SampleId(7)}, {}, {1, -2, 3.5F, 4, 5, 6}};
  std::vector<std::byte> bytes;
  std::string problem;
  protocol::JobMessage out;
  for (const bool labels : {false, true}) {
    if (labels) described.labels = {4, engine::kNoClass};
    protocol::write_described(described, bytes);
    REQUIRE_MESSAGE(protocol::read_job_record(bytes, out, problem), problem);
    CHECK(out.record.kind == protocol::JobRecordKind::described);
    CHECK(out.described.features == 3);
    CHECK(out.described.samples == described.samples);
    CHECK(out.described.labels == described.labels);
    CHECK(out.described.values == described.values);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(protocol::read_job_record(std::span(bytes).first(size), out, problem));
  // As many samples as a record has room for, with the most features.
  const std::size_t most = protocol::described_in_record(engine::kFeaturesMost);
  described = {engine::kFeaturesMost,
               std::vector<SampleId>(most, SampleId(1)),
               {},
               std::vector<float>(most * engine::kFeaturesMost)};
  protocol::write_described(described, bytes);
  CHECK(bytes.size() <= protocol::kRecordMost);
  CHECK(protocol::read_job_record(bytes, out, problem));
}

TEST_CASE("records: a buffer that the service fills, in parts, by ascending key") {
  std::vector<SampleId> samples;
  std::vector<std::uint32_t> weights;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    samples.emplace_back(i * 7919 % 100'003);
    weights.push_back(i % 2 == 0 ? UINT32_MAX : static_cast<std::uint32_t>(i));
  }
  for (const bool weighted : {false, true}) {
    const auto records =
        protocol::buffer_records(samples, weighted ? std::span<const std::uint32_t>(weights)
                                                   : std::span<const std::uint32_t>());
    std::map<SampleId, std::uint32_t> read;
    protocol::ServiceMessage out;
    std::string problem;
    std::uint32_t first = 0;
    for (const std::vector<std::byte>& record : records) {
      CHECK(record.size() <= protocol::kRecordMost);
      REQUIRE_MESSAGE(protocol::read_service_record(record, out, problem), problem);
      CHECK(out.kind == protocol::ServiceRecordKind::exemplars);
      CHECK(out.buffer.first == first);
      CHECK(out.buffer.total == 3000);
      CHECK(out.weights.size() == (weighted ? out.exemplars.size() : 0));
      first += out.buffer.count;
      for (std::size_t i = 0; i < out.exemplars.size(); ++i)
        read[out.exemplars[i]] = weighted ? out.weights[i] : 0;
      CHECK(std::is_sorted(out.exemplars.begin(), out.exemplars.end()));
      CHECK_FALSE(
          protocol::read_service_record(std::span(record).first(record.size() - 1), out, problem));
    }
    CHECK(first == 3000);
    for (std::size_t i = 0; i < samples.size(); ++i)
      REQUIRE(read.at(samples[i]) == (weighted ? weights[i] : 0));
  }
  CHECK(protocol::buffer_records({}, {}).empty());
}

TEST_CASE("records: other weights of a mixture, in both directions") {
  order::MixtureChange change{std::uint64_t{1} << 60, {order::Mixture::kWhole - 5, 5, 0}};
  std::vector<std::byte> bytes;
  std::string problem;
  protocol::JobMessage asked;
  protocol::write_mixture(protocol::JobRecordKind::mixture, change, bytes);
  REQUIRE_MESSAGE(protocol::read_job_record(bytes, asked, problem), problem);
  CHECK(asked.record.kind == protocol::JobRecordKind::mixture);
  CHECK(asked.change == change);
  protocol::ServiceMessage told;
  protocol::write_mixture(protocol::ServiceRecordKind::mixture, change, bytes);
  REQUIRE_MESSAGE(protocol::read_service_record(bytes, told, problem), problem);
  CHECK(told.kind == protocol::ServiceRecordKind::mixture);
  CHECK(told.change == change);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(protocol::read_service_record(std::span(bytes).first(size), told, problem));
  bytes.push_back(std::byte{0});
  CHECK_FALSE(protocol::read_service_record(bytes, told, problem));
  // The most that a record has to hold.
  change.parts.assign(order::Mixing::kSourcesMost, order::Mixture::kWhole);
  protocol::write_mixture(protocol::ServiceRecordKind::mixture, change, bytes);
  CHECK(bytes.size() <= protocol::kRecordMost);
}

TEST_CASE("records: losses on the sources of a mixture") {
  const std::vector<float> losses{1.5F, std::numeric_limits<float>::quiet_NaN(), -3};
  std::vector<std::byte> bytes;
  std::string problem;
  protocol::JobMessage read;
  protocol::write_losses(losses, bytes);
  REQUIRE_MESSAGE(protocol::read_job_record(bytes, read, problem), problem);
  CHECK(read.record.kind == protocol::JobRecordKind::losses);
  REQUIRE(read.losses.size() == 3);
  CHECK(read.losses[0] == 1.5F);
  CHECK(std::isnan(read.losses[1]));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(protocol::read_job_record(std::span(bytes).first(size), read, problem));
  bytes.push_back(std::byte{0});
  CHECK_FALSE(protocol::read_job_record(bytes, read, problem));
  protocol::write_losses(std::vector<float>(order::Mixing::kSourcesMost), bytes);
  CHECK(bytes.size() <= protocol::kRecordMost);
}

TEST_CASE("records: of the slices of a step the batch's own are counted alone") {
  const std::vector<order::Slice> slices{
      {{1, 2, 3, 4}, 0, 9}, {{1, 2, 3, 4}, 9, 14}, {{1, 2, 3, 5}, 0, 3}};
  protocol::BatchRecord batch;
  batch.slot_samples = 8;
  batch.samples = 5;
  batch.own_from = 1;
  batch.own = 1;
  batch.whole_step = 1;
  std::vector<std::byte> bytes;
  protocol::write_batch(batch, slices, bytes);
  CHECK(bytes.size() == protocol::batch_bytes(3));
  protocol::ServiceMessage out;
  std::string problem;
  REQUIRE_MESSAGE(protocol::read_service_record(bytes, out, problem), problem);
  CHECK(out.slices.size() == 3);
  REQUIRE(out.own().size() == 1);
  CHECK(out.own()[0].to == 14);
}

TEST_CASE("records: the indices of a step's chosen samples come out as they went in") {
  const std::vector<order::Slice> slices{{{1, 2, 3, 4}, 0, 5}};
  const std::vector<std::uint64_t> indices{3, 4, 5, 900, 1ull << 39};
  std::vector<std::byte> list;
  ByteWriter writer(list);
  order::write_indices(indices, writer);
  protocol::BatchRecord batch;
  batch.slot_samples = 8;
  batch.samples = 5;
  batch.own = 1;
  batch.whole_step = 1;
  protocol::ServiceMessage out;
  std::string problem;
  std::vector<std::byte> bytes;
  const auto reads = [&](std::span<const std::byte> some) {
    protocol::write_batch(batch, slices, bytes, some);
    CHECK(bytes.size() == protocol::batch_bytes(1, some.size()));
    return protocol::read_service_record(bytes, out, problem);
  };
  REQUIRE_MESSAGE(reads(list), problem);
  CHECK(out.indices == indices);
  CHECK(out.slices.size() == 1);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(protocol::read_service_record(std::span(bytes).first(size), out, problem));
  CHECK_FALSE(reads(std::span(list).first(list.size() - 1)));
  // As many as memory can hold, in a few bytes; none; beyond any dataset.
  for (const std::vector<std::uint8_t>& wrong :
       std::vector<std::vector<std::uint8_t>>{{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 7},
                                              {0},
                                              {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0}}) {
    CHECK_FALSE(reads(std::as_bytes(std::span(wrong))));
  }
  REQUIRE(reads({}));
  CHECK(out.indices.empty());
  protocol::write_batch(batch, slices, bytes, list);
  batch.index_bytes = ~0u;
  std::memcpy(bytes.data() + offsetof(protocol::BatchRecord, index_bytes), &batch.index_bytes, 4);
  CHECK_FALSE(protocol::read_service_record(bytes, out, problem));
}

}  // namespace batchflow::test::messages_test
