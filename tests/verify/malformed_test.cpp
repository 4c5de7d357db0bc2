// Every way in which a checkpoint can be wrong, and the exact message for each.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/bnb_checkpoint.hpp"
#include "tests/verify/checkpoint_builder.hpp"

namespace reprolab::reference {
namespace {

constexpr const char* damaged = "; the file is damaged or was cut short; download it again";
constexpr const char* save_again = "; save the checkpoint again with bitsandbytes";
constexpr const char* not_nf4 = "; give a checkpoint quantized by bitsandbytes to NF4";

struct Malformed {
  std::string name;
  std::string bytes;
  std::string message;  ///< The message after the file's path and ": ".
};

void PrintTo(const Malformed& entry, std::ostream* out) { *out << entry.name; }

using Tensors = std::vector<BuilderTensor>;

std::string changed(const std::function<void(Tensors&)>& change, bool nested = false) {
  auto tensors = valid_tensors({.nested = nested});
  change(tensors);
  return safetensors_bytes(tensors);
}

std::string without(const std::string& name, bool nested = false) {
  return changed([&](Tensors& tensors) { remove_tensor(tensors, name); }, nested);
}

/// The checkpoint with `extra_elements` more elements in the tensor `name`.
std::string longer(const std::string& name, std::int64_t extra_elements, int element_bytes,
                   bool nested = false) {
  return changed(
      [&](Tensors& tensors) {
        BuilderTensor& tensor = tensor_named(tensors, name);
        tensor.shape[0] += extra_elements;
        tensor.data.resize(tensor.data.size() + extra_elements * element_bytes);
      },
      nested);
}

/// The checkpoint with `from` replaced by `to` in the quant_state's text.
std::string with_state(const std::string& from, const std::string& to, bool nested = false) {
  return changed(
      [&](Tensors& tensors) {
        BuilderTensor& state = tensor_named(tensors, "layer.weight.quant_state.bitsandbytes__nf4");
        const std::size_t at = state.data.find(from);
        if (at == std::string::npos) throw std::logic_error("no " + from + " in " + state.data);
        state.data.replace(at, from.size(), to);
        state.shape[0] = static_cast<std::int64_t>(state.data.size());
      },
      nested);
}

/// The checkpoint with its state named as that of another 4-bit type.
std::string renamed_state(const std::string& type) {
  return changed([&](Tensors& tensors) {
    BuilderTensor& state = tensor_named(tensors, "layer.weight.quant_state.bitsandbytes__nf4");
    state.name = "layer.weight.quant_state.bitsandbytes__" + type;
  });
}

std::string one_entry(const std::string& entry, std::size_t data_bytes = 4) {
  return safetensors_bytes(R"({"t":)" + entry + "}", std::string(data_bytes, 'd'));
}

std::string offset_text() {
  auto tensors = valid_tensors({.nested = true});
  const auto& state = tensor_named(tensors, "layer.weight.quant_state.bitsandbytes__nf4").data;
  const std::size_t at = state.find("\"nested_offset\"");
  return state.substr(at, state.find('}') - at);
}

std::string length_only(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

const std::vector<Malformed>& container_faults() {
  static const std::vector<Malformed> faults = {
      {"Empty", "",
       std::string("has 0 bytes, fewer than the 8 of a safetensors header length") + damaged},
      {"SevenBytes", "1234567",
       std::string("has 7 bytes, fewer than the 8 of a safetensors header length") + damaged},
      {"HeaderPastTheEnd", length_only(100) + "{}",
       std::string("the header of 100 bytes goes past the end of the file (10 bytes)") + damaged},
      {"HeaderTooLong", length_only(100'000'001),
       "the header length 100000001 exceeds 100000000; this is not a safetensors file"},
      {"HeaderLengthAllOnes", length_only(UINT64_MAX),
       "the header length 18446744073709551615 exceeds 100000000; this is not a safetensors file"},
      {"NoJson", safetensors_bytes("hello", ""),
       std::string("the header is not valid JSON (byte 1)") + damaged},
      {"NoHeader", length_only(0), std::string("the header is not valid JSON (byte 1)") + damaged},
      {"CutJson", safetensors_bytes(R"({"t":)", ""),
       std::string("the header is not valid JSON (byte 6)") + damaged},
      {"JsonList", safetensors_bytes("[]", ""),
       std::string("the header is not a JSON object") + damaged},
      {"BadUtf8", safetensors_bytes("{\"\xff\":1}", ""),
       std::string("the header is not valid JSON (byte 3)") + damaged},
      {"NulBehindTheHeader", safetensors_bytes(std::string("{}\0garbage", 10), ""),
       std::string("the header is not valid JSON (byte 3)") + damaged},
      {"TextBehindTheHeader", safetensors_bytes("{} {}", ""),
       std::string("the header is not valid JSON (byte 4)") + damaged},
      {"ByteOrderMark", safetensors_bytes("\xef\xbb\xbf{}", ""),
       std::string("the header is not valid JSON (byte 1)") + damaged},
      {"NewlineInAName", safetensors_bytes("{\"a\nb\":{}}", ""),
       std::string("the header is not valid JSON (byte 4)") + damaged},
      {"LongNumber", safetensors_bytes(R"({"t":)" + std::string(5000, '1') + "}", ""),
       std::string("the header holds a number out of range") + damaged},
      {"HugeNumber", safetensors_bytes(R"({"t":1e999})", ""),
       std::string("the header holds a number out of range") + damaged},
      {"KeyTwice", safetensors_bytes(R"({"t":{},"t":{}})", ""),
       std::string("the header has the key 't' twice") + damaged},
      {"InnerKeyTwice", safetensors_bytes(R"({"t":{"dtype":"U8","dtype":"I8"}})", ""),
       std::string("the header has the key 'dtype' twice") + damaged},
      {"DepthBomb", safetensors_bytes(R"({"t":)" + std::string(1'000'000, '['), ""),
       std::string("the header nests deeper than 4 levels") + damaged},
      {"MetadataNoObject", safetensors_bytes(R"({"__metadata__":3})", ""),
       std::string("tensor '__metadata__' is not an object") + damaged},
      {"MetadataTwice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", ""),
       std::string("the header has the key '__metadata__' twice") + damaged},
      {"MetadataKeyTwice", safetensors_bytes(R"({"__metadata__":{"a":"","a":""}})", ""),
       std::string("the header has the key 'a' twice") + damaged},
      {"MetadataOfLists", safetensors_bytes(R"({"__metadata__":{"a":["b"]}})", ""),
       std::string("tensor '__metadata__' holds a value that is not a string") + damaged},
      {"MetadataNoString", safetensors_bytes(R"({"__metadata__":{"a":3}})", ""),
       std::string("tensor '__metadata__' holds a value that is not a string") + damaged},
      {"EntryNoObject", one_entry("7"),
       std::string("tensor 't' has a header entry that is not an object") + damaged},
      {"NoDtype", one_entry(R"({"shape":[4],"data_offsets":[0,4]})"),
       std::string("tensor 't' has no 'dtype' in the header") + damaged},
      {"DtypeNoString", one_entry(R"({"dtype":8,"shape":[4],"data_offsets":[0,4]})"),
       std::string("tensor 't' has a dtype that is not a string") + damaged},
      {"UnknownDtype", one_entry(R"({"dtype":"Q8","shape":[4],"data_offsets":[0,4]})"),
       std::string("tensor 't' has the unknown dtype 'Q8'") + damaged},
      {"NoShape", one_entry(R"({"dtype":"U8","data_offsets":[0,4]})"),
       std::string("tensor 't' has no 'shape' in the header") + damaged},
      {"ShapeNoList", one_entry(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"),
       std::string("tensor 't' has a shape that is not a list") + damaged},
      {"ShapeObject", one_entry(R"({"dtype":"U8","shape":{"a":4},"data_offsets":[0,4]})"),
       std::string("tensor 't' has a shape that is not a list") + damaged},
      {"ShapeOfLists", one_entry(R"({"dtype":"U8","shape":[[4]],"data_offsets":[0,4]})"),
       std::string("tensor 't' has a shape that is not whole numbers from 0") + damaged},
      {"NegativeShape", one_entry(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"),
       std::string("tensor 't' has a shape that is not whole numbers from 0") + damaged},
      {"FractionalShape", one_entry(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"),
       std::string("tensor 't' has a shape that is not whole numbers from 0") + damaged},
      {"ShapeOverflow",
       one_entry(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
       std::string("tensor 't' has a shape whose product exceeds 64 bits") + damaged},
      {"BytesOverflow",
       one_entry(R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,4]})"),
       std::string("tensor 't' has more bytes than 64 bits can count") + damaged},
      {"HalfABytes", one_entry(R"({"dtype":"F4","shape":[7],"data_offsets":[0,4]})"),
       std::string("tensor 't' does not fill whole bytes") + damaged},
      {"NoOffsets", one_entry(R"({"dtype":"U8","shape":[4]})"),
       std::string("tensor 't' has no 'data_offsets' in the header") + damaged},
      {"ThreeOffsets", one_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,4]})"),
       std::string("tensor 't' has data_offsets that are not two whole numbers from 0") + damaged},
      {"OffsetsNoList", one_entry(R"({"dtype":"U8","shape":[4],"data_offsets":4})"),
       std::string("tensor 't' has data_offsets that are not two whole numbers from 0") + damaged},
      {"OneOffset", one_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[4]})"),
       std::string("tensor 't' has data_offsets that are not two whole numbers from 0") + damaged},
      {"NegativeOffset", one_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[-4,0]})"),
       std::string("tensor 't' has data_offsets that are not two whole numbers from 0") + damaged},
      {"EndBeforeBegin", one_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"),
       std::string("tensor 't' ends (0) before it begins (4)") + damaged},
      {"CutData", one_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 3),
       std::string("tensor 't' ends at byte 4 of the data, but the file has 3 bytes of data") +
           damaged},
      {"SizeMismatch", one_entry(R"({"dtype":"F32","shape":[4],"data_offsets":[0,4]})"),
       std::string(
           "tensor 't' needs 16 bytes for its shape and dtype F32, but its data_offsets span 4") +
           damaged},
      {"BytesAfterTheLast", one_entry(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 9),
       std::string("the tensors end at byte 4 of the data, but the file has 9") + damaged},
      {"Overlap",
       safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                         "1234567"),
       std::string("tensor 'b' begins at byte 3 of the data, but the tensor before it ends at 4") +
           damaged},
      {"Gap",
       safetensors_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                         R"("b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                         "1234567"),
       std::string("tensor 'b' begins at byte 3 of the data, but the tensor before it ends at 2") +
           damaged},
      {"NoQuantizedTensor", safetensors_bytes({{"t", "U8", {4}, "1234"}}),
       "holds no tensor quantized by bitsandbytes to NF4, but 1 tensor of U8; give a bnb-4bit "
       "checkpoint"},
      {"NoTensors", safetensors_bytes("{}", ""),
       "holds no tensor at all; give a bnb-4bit checkpoint"},
  };
  return faults;
}

const std::vector<Malformed>& checkpoint_faults() {
  const auto w = [](const std::string& fault, const char* cure) {
    return "tensor 'layer.weight' " + fault + cure;
  };
  const auto lacks = [&](const std::string& what) {
    return w("has a quant_state but lacks " + what, save_again);
  };
  const auto state = [&](const std::string& fault) {
    return w("has a quant_state that " + fault, not_nf4);
  };
  static const std::vector<Malformed> faults = {
      {"NoCodes", without("layer.weight"), lacks("its codes")},
      {"NoAbsmax", without("layer.weight.absmax"), lacks("'absmax'")},
      {"NoQuantMap", without("layer.weight.quant_map"), lacks("'quant_map'")},
      {"NoNestedAbsmax", without("layer.weight.nested_absmax", true), lacks("'nested_absmax'")},
      {"NoNestedQuantMap", without("layer.weight.nested_quant_map", true),
       lacks("'nested_quant_map'")},
      {"NoState", without("layer.weight.quant_state.bitsandbytes__nf4"),
       w("has 'absmax' but lacks 'quant_state.bitsandbytes__nf4'", save_again)},
      {"NoStateNoCodes", changed([](Tensors& tensors) {
         remove_tensor(tensors, "layer.weight.quant_state.bitsandbytes__nf4");
         remove_tensor(tensors, "layer.weight");
       }),
       w("has 'absmax' but lacks its codes and 'quant_state.bitsandbytes__nf4'", save_again)},
      {"UnknownState", renamed_state("nf5"),
       w("has a quant_state of the unknown type 'nf5'; only nf4 and fp4 are known", save_again)},
      {"StateWithoutType", renamed_state(""),
       w("has a quant_state of the unknown type ''; only nf4 and fp4 are known", save_again)},
      {"TwoStates", changed([](Tensors& tensors) {
         tensors.push_back({"layer.weight.quant_state.bitsandbytes__fp4", "U8", {2}, "{}"});
       }),
       w("has two quant_states, nf4 and fp4", save_again)},
      {"NothingButFp4", renamed_state("fp4"),
       "holds no tensor quantized by bitsandbytes to NF4, but 1 tensor of FP4, 1 of BF16; give a "
       "bnb-4bit checkpoint"},
      {"TooManyCodes", longer("layer.weight", 1, 1),
       w("has its codes of 102 U8, but its quant_state calls for 101 U8", save_again)},
      {"TooManyScales", longer("layer.weight.absmax", 1, 4),
       w("has 'absmax' of 5 F32, but its quant_state calls for 4 F32", save_again)},
      {"LongQuantMap", longer("layer.weight.quant_map", 1, 4),
       w("has 'quant_map' of 17 F32, but its quant_state calls for 16 F32", save_again)},
      {"LongNestedAbsmax", longer("layer.weight.nested_absmax", 1, 4, true),
       w("has 'nested_absmax' of 2 F32, but its quant_state calls for 1 F32", save_again)},
      {"LongNestedQuantMap", longer("layer.weight.nested_quant_map", 1, 4, true),
       w("has 'nested_quant_map' of 257 F32, but its quant_state calls for 256 F32", save_again)},
      {"NestedScalesWithoutNestedState", changed([](Tensors& tensors) {
         tensor_named(tensors, "layer.weight.absmax") = {"layer.weight.absmax", "U8", {4}, "abcd"};
       }),
       w("has 'absmax' of 4 U8, but its quant_state calls for 4 F32", save_again)},
      {"CodesOfAnotherDtype",
       changed([](Tensors& tensors) { tensor_named(tensors, "layer.weight").dtype = "I8"; }),
       w("has its codes of 101 I8, but its quant_state calls for 101 U8", save_again)},
      {"ShapeOfAnotherSize", with_state("[3, 67]", "[3, 68]"),
       w("has its codes of 101 U8, but its quant_state calls for 102 U8", save_again)},
      {"DequantizedOfAnotherSize", longer("layer.dequantized", 1, 134),
       std::string("tensor 'layer.dequantized' has 268 BF16, but 'layer.weight' is 201 BF16") +
           save_again},
      {"StateNoText", changed([](Tensors& tensors) {
         BuilderTensor& t = tensor_named(tensors, "layer.weight.quant_state.bitsandbytes__nf4");
         t = {t.name, "F32", {1}, "abcd"};
       }),
       w("has a quant_state that is not a U8 text of at most 65536 bytes", save_again)},
      {"StateNoJson", with_state("{", "["), state("is not valid JSON (byte 14)")},
      {"NulBehindTheState", with_state("}", std::string("}\0{", 3)),
       state("is not valid JSON (byte 78)")},
      {"TextBehindTheState", with_state("}", "}x"), state("is not valid JSON (byte 78)")},
      {"StateDeep", with_state("[3, 67]", "[[[3]]]"), state("nests deeper than 3 levels")},
      {"StateKeyTwice", with_state("\"shape\"", "\"dtype\""), state("has the key 'dtype' twice")},
      {"Fp4", with_state("\"nf4\"", "\"fp4\""), state("says 'fp4', not NF4")},
      {"UnknownType", with_state("\"nf4\"", "\"x\\ny\""), state("says 'x\\x0ay', not NF4")},
      {"TypeNoString", with_state("\"nf4\"", "4"), state("has a 'quant_type' that is no string")},
      {"NoType", with_state("quant_type", "kind"), state("has no 'quant_type'")},
      {"BlockSize48", with_state("64", "48"),
       state("has the blocksize 48, not a power of two from 32 to 4096")},
      {"BlockSize8192", with_state("64", "8192"),
       state("has the blocksize 8192, not a power of two from 32 to 4096")},
      {"BlockSizeZero", with_state("64", "0"),
       state("has the blocksize 0, not a power of two from 32 to 4096")},
      {"BlockSizeNegative", with_state("64", "-64"),
       state("has a 'blocksize' that is not whole numbers from 0")},
      {"BlockSizeOtherThanTheScales", with_state("64", "32"),
       w("has 'absmax' of 4 F32, but its quant_state calls for 7 F32", save_again)},
      {"Fp32", with_state("bfloat16", "float32"),
       state("has the dtype 'float32'; only float16 and bfloat16 outputs can be verified")},
      {"ShapeNoList", with_state("[3, 67]", "201"), state("has a 'shape' that is no list")},
      {"ShapeNegative", with_state("[3, 67]", "[3, -67]"),
       state("has a 'shape' that is not whole numbers from 0")},
      {"ShapeOverflow", with_state("[3, 67]", "[4294967296, 4294967296]"),
       state("has a 'shape' whose product exceeds 64 bits")},
      {"NestedDtype", with_state("float32", "float16", true),
       state("has the nested_dtype 'float16', not float32")},
      {"NestedBlockSize", with_state("256", "100", true),
       state("has the nested_blocksize 100, not a power of two to 4096")},
      {"NestedBlockSizeZero", with_state("256", "0", true),
       state("has the nested_blocksize 0, not a power of two to 4096")},
      {"NestedBlockSizeLarge", with_state("256", "8192", true),
       state("has the nested_blocksize 8192, not a power of two to 4096")},
      {"NoOffset", with_state("nested_offset", "offset", true), state("has no 'nested_offset'")},
      {"OffsetNan", with_state(offset_text(), "\"nested_offset\": NaN", true),
       state("has a nested_offset of NaN, which makes every weight NaN")},
      {"OffsetText", with_state(offset_text(), "\"nested_offset\": \"much\"", true),
       state("has a nested_offset that is no number")},
      {"OffsetTooLarge", with_state(offset_text(), "\"nested_offset\": 1e39", true),
       state("has a nested_offset past the range of fp32")},
  };
  return faults;
}

class MalformedFile : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedFile, GetsOneLineThatNamesTheFault) {
  const TemporaryFolder folder;
  const auto path = folder.write("a.safetensors", GetParam().bytes);
  try {
    BnbCheckpoint checkpoint({path});
    FAIL() << "was accepted";
  } catch (const InvalidFile& error) {
    EXPECT_EQ(error.what(), path.string() + ": " + GetParam().message);
  }
}

std::string entry_name(const testing::TestParamInfo<Malformed>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Container, MalformedFile, testing::ValuesIn(container_faults()),
                         entry_name);
INSTANTIATE_TEST_SUITE_P(Checkpoint, MalformedFile, testing::ValuesIn(checkpoint_faults()),
                         entry_name);

TEST(SpecialOffset, InfinityAsPythonWritesItIsAccepted) {
  const TemporaryFolder folder;
  for (const std::string word : {"Infinity", "-Infinity"}) {
    const BnbCheckpoint checkpoint(
        {folder.write("a", with_state(offset_text(), "\"nested_offset\": " + word, true))});
    const float offset = checkpoint.tensors()[0].state.nested_offset;
    EXPECT_TRUE(std::isinf(offset) && (offset < 0) == (word[0] == '-'));
  }
}

TEST(AbsentFile, IsSaidToBeAbsent) {
  try {
    BnbCheckpoint checkpoint({"/nonexistent/a.safetensors"});
    FAIL();
  } catch (const InvalidFile& error) {
    EXPECT_STREQ(error.what(),
                 "/nonexistent/a.safetensors: cannot be opened: No such file or directory");
  }
}

TEST(AbsentFile, AnEmptyFolderIsNoCheckpoint) {
  const TemporaryFolder folder;
  try {
    BnbCheckpoint checkpoint({folder.path()});
    FAIL();
  } catch (const InvalidFile& error) {
    EXPECT_EQ(error.what(), folder.path().string() +
                                ": holds no .safetensors file; give the folder of a checkpoint");
  }
}

}  // namespace
}  // namespace reprolab::reference
