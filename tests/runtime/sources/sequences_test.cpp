// Documents as sequences: which token comes where, and what is refused.
#include "runtime/sources/sequences.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "core/base/random.h"
#include "core/order/keys.h"
#include "runtime/sources/like_groups.h"
#include "runtime/sources/megatron.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/record.h"
#include "runtime/sources/sequence_record.h"
#include "tests/runtime/sources/arrow_bytes.h"
#include "tests/runtime/sources/megatron_bytes.h"

namespace batchflow::test::sequences_test {
namespace {

using Lengths = std::vector<std::uint64_t>;
using Pieces = std::vector<sources::DocumentPiece>;

std::vector<Pieces> planned(const Lengths& lengths, const sources::SequenceRule& rule,
                            std::uint64_t length, Digest version = 7) {
  sources::SequencePlan plan([&](std::uint64_t document) { return lengths[document]; },
                             lengths.size(), version, rule, length);
  std::vector<Pieces> all;
  Pieces pieces;
  while (plan.next(pieces)) all.push_back(pieces);
  return all;
}

std::uint64_t sum_of(const Pieces& pieces) {
  std::uint64_t sum = 0;
  for (const sources::DocumentPiece& piece : pieces) sum += piece.tokens;
  return sum;
}

// A normal variable by the sum of twelve uniform ones.
double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.unit();
  return sum;
}

Lengths random_lengths(std::uint64_t seed, std::size_t documents) {
  Random random(seed);
  Lengths lengths;
  for (std::size_t i = 0; i < documents; ++i) {
    const double length = std::exp(4.0 + 1.2 * normal(random));
    lengths.push_back(random.below(20) == 0 ? 0 : static_cast<std::uint64_t>(length));
  }
  return lengths;
}

}  // namespace

TEST_CASE("end to end: the rule written again") {
  for (const std::uint64_t length : {1, 7, 64, 1000}) {
    for (const bool ends : {false, true}) {
      const Lengths lengths = random_lengths(length, 500);
      sources::SequenceRule rule{"concat", 3, {}};
      if (ends) rule.end_token = 2;
      std::vector<std::pair<std::uint64_t, std::uint64_t>> all;  // document, token of it
      const order::Permutation order(hash(11, 7, 3), lengths.size());
      for (std::uint64_t i = 0; i < lengths.size(); ++i) {
        const std::uint64_t document = order(i);
        const std::uint64_t tokens = lengths[document] + (ends && lengths[document] > 0 ? 1 : 0);
        for (std::uint64_t token = 0; token < tokens; ++token) all.emplace_back(document, token);
      }
      const auto plan = planned(lengths, rule, length);
      REQUIRE(plan.size() == all.size() / length);
      std::size_t at = 0;
      for (const Pieces& pieces : plan) {
        REQUIRE(sum_of(pieces) == length);
        for (const sources::DocumentPiece& piece : pieces)
          for (std::uint64_t token = 0; token < piece.tokens; ++token, ++at)
            REQUIRE(all[at] == std::pair(piece.document, piece.from + token));
      }
      CHECK(all.size() - at < length);
    }
  }
}

TEST_CASE("whole: each token once, and no document in two sequences that fits into one") {
  for (const std::uint64_t length : {1, 50, 333, 2048}) {
    const Lengths lengths = random_lengths(length, 3000);
    const auto plan = planned(lengths, {"whole", 0, {}}, length);
    CHECK(plan == planned(lengths, {"whole", 0, {}}, length));
    CHECK(plan != planned(lengths, {"whole", 1, {}}, length));
    std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> seen;  // from, tokens
    for (const Pieces& pieces : plan) {
      REQUIRE(!pieces.empty());
      REQUIRE(sum_of(pieces) <= length);
      for (const sources::DocumentPiece& piece : pieces)
        REQUIRE(seen[piece.document].emplace(piece.from, piece.tokens).second);
    }
    for (std::uint64_t document = 0; document < lengths.size(); ++document) {
      const auto& pieces = seen[document];
      REQUIRE(pieces.size() == (lengths[document] + length - 1) / length);
      std::uint64_t at = 0;
      for (const auto& [from, tokens] : pieces) {
        REQUIRE(from == at);
        REQUIRE(tokens == std::min(length, lengths[document] - at));
        at += tokens;
      }
      REQUIRE(at == lengths[document]);
    }
  }
}

TEST_CASE("whole: at least 97 % are filled, over several windows") {
  Random random(5);
  const std::size_t documents = 2 * sources::SequencePlan::kWindow + 1000;
  std::map<std::string, Lengths> usual;
  for (std::size_t i = 0; i < documents; ++i) {
    const double one = random.unit();
    usual["log-normal, median 400"].push_back(
        static_cast<std::uint64_t>(std::exp(6.0 + 1.0 * normal(random))) + 1);
    usual["even, 1 to 2048"].push_back(1 + static_cast<std::uint64_t>(one * 2048));
    usual["exponential, mean 700"].push_back(1 +
                                             static_cast<std::uint64_t>(-700 * std::log(1 - one)));
    usual["short, 10 to 60"].push_back(10 + static_cast<std::uint64_t>(one * 50));
  }
  for (const auto& [name, lengths] : usual) {
    const auto plan = planned(lengths, {"whole", 0, {}}, 2048);
    const double tokens =
        static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}));
    const double filled = tokens / (static_cast<double>(plan.size()) * 2048);
    MESSAGE(fmt::format("{}: {:.2f} % filled", name, 100 * filled));
    CHECK(filled >= 0.97);
    CHECK(filled <= 1);
  }
}

namespace {

// Squares of the documents.
double cost_of(const Pieces& pieces) {
  double cost = 0;
  for (const sources::DocumentPiece& piece : pieces) {
    if (piece.document == sources::DocumentPiece::kGap) continue;
    cost += static_cast<double>(piece.tokens) * static_cast<double>(piece.tokens);
  }
  return cost;
}

// The documents' pieces, sorted; and where each begins in its sample.
std::vector<std::pair<Pieces, std::vector<std::uint64_t>>> placed(const std::vector<Pieces>& plan) {
  std::vector<std::pair<Pieces, std::vector<std::uint64_t>>> all;
  for (const Pieces& pieces : plan) {
    auto& [kept, begins] = all.emplace_back();
    std::uint64_t at = 0;
    for (const sources::DocumentPiece& piece : pieces) {
      if (piece.document != sources::DocumentPiece::kGap) {
        kept.push_back(piece);
        begins.push_back(at);
      }
      at += piece.tokens;
    }
  }
  return all;
}

std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> all_of(
    const std::vector<Pieces>& plan) {
  std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> all;
  for (const auto& [pieces, begins] : placed(plan))
    for (const auto& piece : pieces) all.emplace_back(piece.document, piece.from, piece.tokens);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

namespace {

// A step of 8 ranks with so many samples each, by chance: the dearest rank over the mean, at worst.
double dearest_rank(const std::vector<Pieces>& plan, std::size_t a_rank) {
  const order::Permutation order(99, plan.size());
  double most = 0;
  for (std::size_t step = 0; (step + 1) * 8 * a_rank <= plan.size(); ++step) {
    double sum = 0;
    double dearest = 0;
    for (std::size_t rank = 0; rank < 8; ++rank) {
      double cost = 0;
      for (std::size_t i = 0; i < a_rank; ++i)
        cost += cost_of(plan[order((step * 8 + rank) * a_rank + i)]);
      sum += cost;
      dearest = std::max(dearest, cost);
    }
    most = std::max(most, dearest / (sum / 8));
  }
  return most;
}

}  // namespace

TEST_CASE("rows: the sequences of whole, so many at a time, and all samples cost the same") {
  Random random(6);
  std::map<std::string, Lengths> usual;
  for (std::size_t i = 0; i < 2 * sources::SequencePlan::kWindow; ++i) {
    const double one = random.unit();
    usual["log-normal"].push_back(static_cast<std::uint64_t>(std::exp(6.0 + normal(random))) + 1);
    usual["even"].push_back(1 + static_cast<std::uint64_t>(one * 2048));
    usual["exponential"].push_back(1 + static_cast<std::uint64_t>(-700 * std::log(1 - one)));
  }
  for (const auto& [name, lengths] : usual) {
    sources::SequenceRule rule{"whole", 0, {}};
    const auto plain = planned(lengths, rule, 2048);
    for (const std::uint32_t rows : {4, 8, 70}) {
      rule.rows = rows;
      const auto plan = planned(lengths, rule, 2048);
      CHECK(all_of(plan) == all_of(plain));  // each token of each document, once
      for (const auto& [pieces, begins] : placed(plan)) {
        for (std::size_t i = 0; i < pieces.size(); ++i)  // none lies over the end of a row
          REQUIRE(begins[i] / 2048 == (begins[i] + pieces[i].tokens - 1) / 2048);
        REQUIRE(begins.back() / 2048 < rows);
      }
      const double without = dearest_rank(plain, rows);
      MESSAGE(fmt::format(
          "{}: the dearest of 8 ranks has {:.3f} of the mean with {} rows, and {:.2f} without",
          name, dearest_rank(plan, 1), rows, without));
      CHECK(dearest_rank(plan, 1) <= 1.05);
      CHECK(without > (rows > 8 ? 1.05 : 1.2));  // or there was nothing to balance
    }
  }
}

TEST_CASE("sequences of like cost: worked out by hand") {
  using Groups = std::vector<std::vector<std::uint32_t>>;
  const auto made = [](const std::vector<std::uint64_t>& costs, std::uint32_t rows) {
    return sources::groups_of_like_cost(costs, rows);
  };
  CHECK(made({}, 3).empty());
  CHECK(made({7}, 3) == Groups{{0}});
  CHECK(made({1, 5, 5}, 1) == Groups{{1}, {2}, {0}});
  // 9 | 8 | 7; then 5 to the 7, 4 to the 8 and 3 to the 9: 12 each.
  CHECK(made({9, 8, 7, 5, 4, 3}, 2) == Groups{{0, 5}, {1, 4}, {2, 3}});
  // 9 | 8; 6 to the 8, 5 to the 9, of two 14 the first has 3 and is full, the other has 0: 17 and
  // 14. Of 9 5 3 and 8 6 0 the pair 9 and 8 leaves 16 and 15; no other leaves less.
  CHECK(made({9, 8, 6, 5, 3, 0}, 3) == Groups{{1, 3, 4}, {0, 2, 5}});
}

TEST_CASE("buckets: documents of like length in rows of one width, within the budget") {
  for (const std::uint64_t budget : {64, 1000, 8192, 65'536}) {
    const Lengths lengths = random_lengths(budget, 60'000);
    const auto plan = planned(lengths, {"buckets", 2, {}}, budget);
    CHECK(plan == planned(lengths, {"buckets", 2, {}}, budget));
    CHECK(all_of(plan) == all_of(planned(lengths, {"whole", 2, {}}, budget)));
    double places = 0;
    double tokens = 0;
    for (const auto& [pieces, begins] : placed(plan)) {
      const std::uint64_t width = pieces.front().tokens;
      for (std::size_t row = 0; row < pieces.size(); ++row) {
        REQUIRE(begins[row] == row * width);
        REQUIRE(pieces[row].tokens <= width);
        tokens += static_cast<double>(pieces[row].tokens);
      }
      REQUIRE(pieces.size() * width <= budget);
      places += static_cast<double>(pieces.size() * width);
    }
    const double of_all = tokens / (static_cast<double>(plan.size()) * static_cast<double>(budget));
    const double dearest = dearest_rank(plan, 1);
    MESSAGE(fmt::format(
        "buckets of {} tokens: {:.2f} % of their rows are filled, and {:.2f} % of all entries; the "
        "dearest of 8 ranks has {:.2f} of the mean at worst",
        budget, 100 * tokens / places, 100 * of_all, dearest));
    // Rows of sample k are narrower by w(k) - w(k + 1) at most, and there are N / w(k) of them. The
    // sum of 1 - w(k + 1) / w(k) is no more than ln(w(first) / w(last)); the last has N at most.
    CHECK(places - tokens <= static_cast<double>(budget) * (std::log(budget) + 1));
    // That is below 3 % of a window of 500 samples. Here the largest budget has a hundred.
    CHECK(tokens / places > (budget > 10'000 ? 0.96 : 0.97));
    CHECK(of_all > 0.8);
    CHECK(dearest > 1.05);  // so the page says that ranks have no equal cost
  }
}

TEST_CASE("mixed: each source is within a longest document of its share, and none comes twice") {
  const Lengths lengths = random_lengths(8, 6000);
  const std::vector<SampleRange> ranges = {{SampleId(0), 1500}, {SampleId(2000), 4000}};
  sources::SequenceRule rule{"concat", 4, {}};
  rule.mixture = "b:3+a:1";  // in the order of their names: a is the first
  sources::SequencePlan plan([&](std::uint64_t document) { return lengths[document]; },
                             lengths.size(), 7, rule, 100, ranges);
  Pieces pieces;
  std::map<std::uint64_t, std::uint64_t> had;  // tokens of each document
  double of_first = 0;
  double all = 0;
  double longest = 0;
  for (const std::uint64_t length : lengths)
    longest = std::max(longest, static_cast<double>(length));
  while (plan.next(pieces)) {
    for (const sources::DocumentPiece& piece : pieces) {
      const bool is_first = piece.document < 1500;
      REQUIRE((is_first || piece.document >= 2000));
      const std::uint64_t before = had[piece.document];
      REQUIRE(piece.from == before);
      had[piece.document] += piece.tokens;
      REQUIRE(had[piece.document] <= lengths[piece.document]);
      if (is_first) of_first += static_cast<double>(piece.tokens);
      all += static_cast<double>(piece.tokens);
      if (had[piece.document] == lengths[piece.document])
        REQUIRE(std::abs(of_first - all / 4) <= longest);
    }
  }
  CHECK(had.size() > 3000);
  for (const char* wrong : {"a", "a:x", "a:-1", "a:1+a:2", ":1", "a:0", "a:1+", "a:nan", "a:inf"}) {
    CAPTURE(wrong);
    rule.mixture = wrong;
    CHECK((rule.problem(8).empty()) == (std::string(wrong) == "a:1+"));
  }
}

TEST_CASE("rules that cannot be are refused") {
  CHECK(sources::SequenceRule{"concat"}.problem(0).find("as tokens=2048") != std::string::npos);
  CHECK(sources::SequenceRule{"concat"}.problem(1).empty());
  CHECK(sources::SequenceRule{"whole"}.problem(1 << 20).empty());
  CHECK(sources::SequenceRule{"whole"}.problem((1 << 20) + 1).find("at most 1048576") !=
        std::string::npos);
  CHECK(sources::SequenceRule{"bins"}.problem(8).find("write concat, whole, buckets") !=
        std::string::npos);
}

// ------------------------------------------------------------------------------- Megatron ----

namespace {

std::string problem_of(const std::string& bytes, Bytes tokens_bytes) {
  const auto span = std::as_bytes(std::span(bytes));
  sources::MemoryView lengths(span), offsets(span), documents(span);
  sources::MegatronIndex index(lengths, offsets, documents);
  std::string problem = index.open(tokens_bytes);
  sources::MegatronIndex::Document document;
  while (problem.empty() && index.next(document, problem)) {
  }
  return problem;
}

}  // namespace

TEST_CASE("hostile indices of documents are refused") {
  const auto says = [](const std::string& bytes, Bytes tokens_bytes, const char* part) {
    const std::string problem = problem_of(bytes, tokens_bytes);
    CAPTURE(problem);
    CHECK(problem.find(part) != std::string::npos);
  };
  const std::string sound = megatron_index(8, {3, 0, 5}, {0, 1, 2, 3});
  CHECK(problem_of(sound, 16).empty());
  says(sound, 15, "ends beyond the 15 bytes");
  for (std::size_t bytes = 0; bytes < sound.size(); ++bytes)
    CHECK(!problem_of(sound.substr(0, bytes), 16).empty());
  says("NOTIDX", 16, "begins with MMIDIDX");
  says(megatron_index(9, {1}, {0, 1}), 2, "type of tokens, 9");
  says(megatron_index(8, {3, 3}, {0, 1, 2}, {6, 0}), 99, "sequence 0 has 3 tokens at byte 6");
  says(megatron_index(8, {3, 3}, {0, 1, 2}, {0, 4}), 99, "sequence 1 has 3 tokens at byte 4");
  const std::uint64_t far = std::uint64_t{1} << 63;
  says(megatron_index(8, {3, 3}, {0, 1, 2}, {0, far}), 99, "ends at 6");
  says(megatron_index(8, {3, 3}, {0, 1, 2}, {far, far + 6}), UINT64_MAX, "sequence 0");
  says(megatron_index(8, {-3}, {0, 1}, {0}), 99, "has -3 tokens");
  says(megatron_index(8, {3, 3}, {0, 2, 1}), 99, "document 1 ends with sequence 1");
  says(megatron_index(8, {3, 3}, {0, far}), 99, "could be");
  says(megatron_index(8, {3, 3}, {1, 2}), 99, "does not begin with its first");
  says(megatron_index(8, {3, 3}, {0, 1}), 99, "1 sequences at its end belong to no document");
  says(megatron_index(8, {3}, {}), 99, "no list of documents");
  std::string many = sound;
  many.replace(18, 8, little(std::uint64_t{1} << 62));
  says(many, 16, "too short for so many");
  many = sound;
  many.replace(26, 8, little(UINT64_MAX));
  says(many, 16, "too short for so many");
}

// ------------------------------------------------------------------- from files to records ----

namespace {

struct Corpus {
  std::vector<std::vector<std::int32_t>> documents;

  explicit Corpus(std::uint64_t seed, std::size_t count = 300) {
    Random random(seed);
    for (const std::uint64_t length : random_lengths(seed, count)) {
      documents.emplace_back();
      for (std::uint64_t i = 0; i < length; ++i)
        documents.back().push_back(static_cast<std::int32_t>(random.below(50'000)));
    }
  }
  void write(const Folder& folder, const std::string& name, std::uint8_t code) const {
    std::string tokens;
    std::vector<std::int32_t> lengths;
    std::vector<std::uint64_t> firsts{0};
    for (const auto& document : documents) {
      for (const std::int32_t token : document)
        tokens += code == 8 ? little(static_cast<std::uint16_t>(token)) : little(token);
      lengths.push_back(static_cast<std::int32_t>(document.size()));
      firsts.push_back(lengths.size());
    }
    folder.write(name + ".bin", tokens);
    folder.write(name + ".idx", megatron_index(code, lengths, firsts));
  }
};

sources::SourceOptions packed(const Folder& data, const Folder& indices, std::string way,
                              std::uint64_t length) {
  sources::SourceOptions options = source(data.path());
  options.index_folder = indices.path();
  options.tokens_per_sample = length;
  options.sequences.packing = std::move(way);
  return options;
}

using Numbers = std::vector<std::int32_t>;

std::map<std::string, Numbers> fields_of(const sources::SampleIndex& index, std::uint64_t sample) {
  const sources::Extent extent = index.extent(SampleId(sample));
  sources::DatasetFile file(*index.unpacked(), index.path(extent.file), false);
  const auto bytes = file.view(extent.offset, extent.bytes);
  sources::RecordParts parts;
  REQUIRE(parts.find(index.kind(), bytes, index.stored_fields()));
  std::map<std::string, Numbers> fields;
  for (const sources::Part& part : parts.parts()) {
    Numbers& numbers = fields[std::string(part.name)];
    for (std::size_t i = 0; i < part.elements(); ++i)
      numbers.push_back(sources::load<std::int32_t>(part.bytes, i * 4));
  }
  return fields;
}

}  // namespace

TEST_CASE("documents of files become sequences with each token once") {
  for (const std::uint8_t code : {std::uint8_t{8}, std::uint8_t{4}}) {
    const Corpus corpus(code);
    Folder data, indices;
    corpus.write(data, "corpus", code);
    const auto documents = sources::open_index(source(data.path()));
    REQUIRE(documents->samples() == corpus.documents.size());
    REQUIRE(documents->kind() == sources::RecordKind::value);

    auto options = packed(data, indices, "", 64);
    const auto end_to_end = sources::open_index(options);
    Numbers all;
    const order::Permutation order(order::documents_key(documents->version(), 0),
                                   corpus.documents.size());
    for (std::uint64_t i = 0; i < corpus.documents.size(); ++i) {
      const Numbers& one = corpus.documents[order(i)];
      all.insert(all.end(), one.begin(), one.end());
    }
    Numbers read;
    for (std::uint64_t i = 0; i < end_to_end->samples(); ++i) {
      const Numbers tokens = fields_of(*end_to_end, i)["tokens"];
      read.insert(read.end(), tokens.begin(), tokens.end());
    }
    CHECK(has_note(*end_to_end, fmt::format("the last {} tokens", all.size() % 64)));
    all.resize(all.size() / 64 * 64);
    CHECK(read == all);

    options = packed(data, indices, "whole", 64);
    options.sequences.end_token = 50'000;
    const auto whole = sources::open_index(options);
    std::map<Numbers, int> pieces, expected;
    for (const Numbers& document : corpus.documents) {
      Numbers ended = document;
      if (!ended.empty()) ended.push_back(50'000);
      for (std::size_t at = 0; at < ended.size(); at += 64)
        ++expected[{ended.begin() + static_cast<long>(at),
                    ended.begin() + static_cast<long>(std::min(ended.size(), at + 64))}];
    }
    for (std::uint64_t i = 0; i < whole->samples(); ++i) {
      auto fields = fields_of(*whole, i);
      Numbers piece;
      for (std::size_t at = 0; at < 64; ++at) {
        const std::int32_t segment = fields["segments"][at];
        REQUIRE(fields["positions"][at] == static_cast<std::int32_t>(piece.size()));
        if (segment == 0) {
          REQUIRE(fields["tokens"][at] == 0);
          continue;
        }
        piece.push_back(fields["tokens"][at]);
        if (at == 63 || fields["segments"][at + 1] != segment) {
          ++pieces[piece];
          piece.clear();
        }
      }
    }
    CHECK(pieces == expected);
    CHECK(whole->version() != end_to_end->version());
    CHECK(has_note(*whole, "empty documents are skipped"));
  }
}

TEST_CASE("lists of tables are documents, and text is none") {
  Folder data, indices;
  data.write("a.arrow", from_base64(kArrowLists));
  const auto index = sources::open_index(packed(data, indices, "", 4));
  REQUIRE(index->samples() == 1);
  const Numbers tokens = fields_of(*index, 0)["tokens"];
  CHECK((tokens == Numbers{1, 2, 3, 4} || tokens == Numbers{4, 5, 6, 1}));
  data.write("a.arrow", from_base64(kArrowFile));
  auto options = packed(data, indices, "concat", 4);
  options.column = "caption";
  CHECK(error_of(options).find("'caption' holds bytes or text; turn it into tokens") !=
        std::string::npos);
}

TEST_CASE("sequences are made once, and anew where documents change") {
  Folder data, indices, others;
  Corpus(1).write(data, "corpus", 8);
  const auto options = packed(data, indices, "whole", 100);
  const Digest version = sources::open_index(options)->version();
  const auto files = [&] {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& one : std::filesystem::recursive_directory_iterator(indices.path()))
      if (one.path().extension() == ".bfseq") times[one.path()] = one.last_write_time();
    return times;
  };
  const auto before = files();
  REQUIRE(before.size() == 1);
  CHECK(sources::open_index(options)->version() == version);
  CHECK(files() == before);
  CHECK(sources::open_index(packed(data, others, "whole", 100))->version() == version);
  auto other_seed = options;
  other_seed.sequences.seed = 1;
  CHECK(sources::open_index(other_seed)->version() != version);
  Corpus(2).write(data, "corpus", 8);
  CHECK(sources::open_index(options)->version() != version);
}

TEST_CASE("what holds no documents is refused in the user's terms") {
  Folder data, indices;
  const auto says = [&](sources::SourceOptions options, const char* part) {
    options.index_folder = indices.path();
    const std::string error = error_of(options);
    CAPTURE(error);
    CHECK(error.find(part) != std::string::npos);
  };
  data.write("a.u16", std::string(100, 'a'));
  says(packed(data, indices, "concat", 8), "nothing says where documents end");
  Folder floats;
  floats.write("a.bin", std::string(40, 'a'));
  floats.write("a.idx", megatron_index(7, {5, 5}, {0, 1, 2}));
  says(packed(floats, indices, "whole", 8), "its documents are f32, and tokens are whole numbers");
  Folder few;
  few.write("a.bin", std::string(20, 'a'));
  few.write("a.idx", megatron_index(8, {5, 5}, {0, 1, 2}));
  says(packed(few, indices, "concat", 11), "10 tokens together, and a sequence 11");
  says(packed(few, indices, "concat", 0), "as tokens=2048");
  few.write("a.idx", megatron_index(8, {0, 0}, {0, 1, 2}));
  says(packed(few, indices, "whole", 8), "all 2 documents are empty");
  Folder large;
  large.write("a.bin", little(std::int64_t{5}) + little(std::int64_t{1} << 40));
  large.write("a.idx", megatron_index(5, {2}, {0, 1}));
  says(packed(large, indices, "concat", 2), "it has the token 1099511627776");
  Folder pictures;
  pictures.write("a.png", "picture");
  says(packed(pictures, indices, "concat", 2), "its samples are no documents");
  auto in_memory = packed(large, indices, "concat", 2);
  in_memory.index_folder.clear();
  CHECK(error_of(in_memory).find("no folder to write them to") != std::string::npos);
  // A failed packing leaves nothing behind.
  for (const auto& one : std::filesystem::recursive_directory_iterator(indices.path()))
    CHECK(one.path().extension() != ".bfseq");
}

TEST_CASE("a .bin without an .idx is what it was before") {
  Folder data;
  data.write("a.bin", "any");
  CHECK(sources::open_index(source(data.path()))->kind() == sources::RecordKind::whole);
  data.write("b.idx", "of another program");
  CHECK(sources::open_index(source(data.path()))->samples() == 2);
}

}  // namespace batchflow::test::sequences_test
