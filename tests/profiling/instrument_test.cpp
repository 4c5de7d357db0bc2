#include "profiling/instrument.hpp"

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

TEST(Instrument, NameAndParseAreInverse) {
  for (const auto kind : {InstrumentKind::none, InstrumentKind::events, InstrumentKind::activity,
                          InstrumentKind::counters}) {
    EXPECT_EQ(parse_instrument(name(kind)), kind);
  }
}

TEST(Instrument, ParseSaysWhatItExpectsAndGot) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { parse_instrument("event"); }),
            "--instrument: expected none, events, activity or counters; got 'event'");
  EXPECT_EQ(message_of<std::invalid_argument>([] { parse_instrument(""); }),
            "--instrument: expected none, events, activity or counters; got ''");
}

}  // namespace
}  // namespace reprolab::profiling
