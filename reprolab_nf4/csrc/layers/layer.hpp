// A layer's state when its plans were made, and whether it is still the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "reprolab_nf4/csrc/layers/object.hpp"

namespace reprolab::layers {

/// Objects whose dictionaries hold a product's operands: the module, its `_parameters`, its weight,
/// the weight's quant_state, and the state2 of nested scales.
enum Holder { of_module, of_parameters, of_weight, of_state, of_state2, holders };

/// The classes of a weight, as bitsandbytes makes it and as it is after pickling, and of its
/// states. Attributes of other classes may be computed.
struct Classes {
  Ref weight, parameter, state;
};

/// A name in the dictionary of a holder. `is_read_early`: an array that kernels read before earlier
/// launches have ended, once it is settled.
struct Place {
  int holder;
  const char* name;
  bool is_read_early = false;
};
/// The values that a product depends on. Those of the module hide parameters.
inline constexpr Place values[] = {{of_module, "compute_dtype"}, {of_module, "compute_type_is_set"},
                                   {of_state, "shape"},          {of_state, "blocksize"},
                                   {of_state, "quant_type"},     {of_state, "dtype"},
                                   {of_state, "nested"},         {of_state2, "blocksize"},
                                   {of_module, "weight"},        {of_module, "bias"}};
/// The arrays: codes, scales, the three of nested scales, bias.
inline constexpr Place tensors[] = {
    {of_parameters, "weight", true}, {of_state, "absmax", true}, {of_state2, "absmax", true},
    {of_state2, "code", true},       {of_state, "offset"},       {of_parameters, "bias"}};

/// A name and the object that a holder has under it, compared by identity. `value`: null if the
/// holder has no such name.
struct Fact {
  int holder;
  Ref name, value;
};

/// A tensor's type, sizes and strides. Arrays of a product have at most two dimensions.
struct Layout {
  exchange::ElementType type;
  std::int32_t dimensions;
  std::array<std::int64_t, 2> sizes, strides;
  bool operator==(const Layout&) const = default;

  /// Equal to no other if there are more dimensions.
  static Layout of(const exchange::Tensor& tensor) {
    Layout layout{tensor.type, tensor.dimensions, {}, {}};
    for (int i = 0; i < std::min(tensor.dimensions, 2); ++i) {
      layout.sizes[i] = tensor.shape[i];
      layout.strides[i] = tensor.strides[i];
    }
    return layout;
  }
};

/// A tensor that a holder has under a name, with its memory and the number of writes to it. No
/// strong reference: a model that is deleted or moved frees its memory at once. No weak reference
/// either: torch.utils.swap_tensors refuses tensors that have one.
struct Array {
  int holder;
  Ref name;
  PyObject* tensor;    ///< Only its address is used.
  Ref storage;         ///< Weak. While it is alive, no other memory has its address.
  bool counts_writes;  ///< False for tensors of inference mode.
  bool is_trainable;   ///< Whether the product has a gradient with respect to it.
  void* first;
  Layout layout;
  long long version;
};

using Dictionaries = std::array<PyObject*, holders>;  ///< Borrowed, or null.

using Arrays = std::array<Ref, std::size(tensors)>;

/// The products of one number of rows, type and device. `plan`: a Plan, None if there can be none,
/// False if they are bitsandbytes' own.
struct Product {
  std::int64_t m;
  exchange::ElementType type;
  exchange::Device device;
  Ref plan;

  bool is_for(const Product& other) const {
    return m == other.m && type == other.type && device == other.device;
  }
};

/// Functions of torch that read tensors.
struct Reader {
  const exchange::Api* api;
  Ref tensor;   ///< torch.Tensor
  Ref version;  ///< Gets Tensor._version.
  Ref is_neg;   ///< Tensor.is_neg
  Ref plainly;  ///< Calls a function as if the classes of its arguments had no __torch_function__.

  bool is_tensor(PyObject* object) const {
    return PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(tensor.get())) != 0;
  }
  bool is_plain(PyObject* object) const {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == tensor.get();
  }
  /// Whether the values have the other sign than those in memory. Sets no exception.
  bool is_negative(PyObject* object) const {
    const auto result = Ref::of_new(PyObject_CallFunctionObjArgs(is_neg.get(), object, nullptr));
    if (!result) PyErr_Clear();
    return result.get() != Py_False;
  }
  /// The count of writes, or -1 with an exception.
  long long version_of(PyObject* object) const {
    static PyObject* const name = PyUnicode_InternFromString("_version");
    static PyObject* const none = PyTuple_New(0);
    Ref number;
    if (is_plain(object)) {
      number = Ref::of_new(PyObject_GetAttr(object, name));
    } else {
      const auto arguments = Ref::of_new(PyTuple_Pack(1, object));
      if (!arguments) return -1;
      number = Ref::of_new(PyObject_CallFunctionObjArgs(plainly.get(), version.get(), none,
                                                        arguments.get(), nullptr));
    }
    return number ? PyLong_AsLongLong(number.get()) : -1;
  }
};

/// A borrowed reference, or null.
inline PyObject* item(PyObject* dictionary, PyObject* name) {
  return dictionary == nullptr ? nullptr : PyDict_GetItemWithError(dictionary, name);
}

/// The object's own dictionary, borrowed from it, or null.
inline PyObject* dictionary_of(PyObject* object) {
  const auto dictionary = Ref::of_new(PyObject_GenericGetDict(object, nullptr));
  if (!dictionary) PyErr_Clear();
  return dictionary.get();
}

inline bool is_of(PyObject* object, const Ref& type) {
  return object != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.get();
}

/// A layer's, without the state's if no plan supports its objects.
inline Dictionaries dictionaries_of(PyObject* layer, const Classes& classes) {
  static PyObject* const parameters = PyUnicode_InternFromString("_parameters");
  static PyObject* const weight = PyUnicode_InternFromString("weight");
  static PyObject* const quant_state = PyUnicode_InternFromString("quant_state");
  static PyObject* const state2 = PyUnicode_InternFromString("state2");
  Dictionaries found{};
  found[of_module] = dictionary_of(layer);
  found[of_parameters] = item(found[of_module], parameters);
  // A subclass of dict may compute its items, as those of sharded models do.
  if (found[of_parameters] == nullptr || !PyDict_CheckExact(found[of_parameters])) return found;
  PyObject* const weights = item(found[of_parameters], weight);
  if (!is_of(weights, classes.weight) && !is_of(weights, classes.parameter)) return found;
  found[of_weight] = dictionary_of(weights);
  PyObject* const state = item(found[of_weight], quant_state);
  if (!is_of(state, classes.state)) return found;
  found[of_state] = dictionary_of(state);
  PyObject* const second = item(found[of_state], state2);
  if (is_of(second, classes.state)) found[of_state2] = dictionary_of(second);
  return found;
}

class Layer {
 public:
  Ref module;  ///< Weak.
  Ref type;    ///< Of the module.
  std::vector<Fact> facts;
  std::vector<Array> arrays;
  bool counts_writes = false;   ///< Whether PyTorch counts those to all that kernels read early.
  std::int64_t generation = 0;  ///< How often it was bound: 0 if it was not.

  /// Null if the layer has no such product yet.
  Product* find(const Product& wanted) {
    for (Product& product : products_) {
      if (product.is_for(wanted)) return &product;
    }
    return nullptr;
  }
  /// In place of its earlier plan, or of the oldest if there are max_products.
  void add(Product product) {
    constexpr std::size_t max_products = 32;
    if (Product* const known = find(product)) {
      *known = std::move(product);
    } else if (products_.size() < max_products) {
      products_.push_back(std::move(product));
    } else {
      products_[oldest_] = std::move(product);
      oldest_ = (oldest_ + 1) % max_products;
    }
  }
  void forget_products() { products_.clear(), oldest_ = 0; }

  /// Keeps the layer's objects and forgets its plans. False, perhaps with an exception, where an
  /// array cannot be read, or a state that plans need is not in `of`. Reading an array may let
  /// another thread call this layer.
  bool bind(PyObject* layer, const Dictionaries& of, const Reader& reader) {
    static PyObject* const nested = PyUnicode_InternFromString("nested");
    const bool is_nested = item(of[of_state], nested) != Py_False;
    if (of[of_state] == nullptr || (is_nested && of[of_state2] == nullptr)) return false;
    std::vector<Fact> new_facts, found;
    for (const Place& place : values) new_facts.push_back(fact_at(place, of));
    for (const Place& place : tensors) found.push_back(fact_at(place, of));
    std::vector<Array> new_arrays;
    bool counts = true;
    for (std::size_t i = 0; i < found.size(); ++i) {
      PyObject* const tensor = found[i].value.get();
      if (tensor == nullptr || tensor == Py_None) {
        new_facts.push_back(found[i]);
        continue;
      }
      if (!add(found[i], reader, new_arrays)) return false;
      counts = counts && (new_arrays.back().counts_writes || !tensors[i].is_read_early);
    }
    forget_products();
    type = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(layer)));
    facts.swap(new_facts);
    arrays.swap(new_arrays);
    counts_writes = counts;
    ++generation;
    return true;
  }

  /// Whether the layer is unchanged. Sets no exception. `tensors`: those of the arrays.
  bool is_current(PyObject* layer, const Dictionaries& dictionaries, const Reader& reader,
                  Arrays& tensors) const {
    if (facts.empty() || !is_of(layer, type)) return false;
    for (const Fact& fact : facts) {
      if (item(dictionaries[fact.holder], fact.name.get()) != fact.value.get()) return false;
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const Array& array = arrays[i];
      PyObject* const tensor = item(dictionaries[array.holder], array.name.get());
      if (tensor == nullptr || tensor != array.tensor) return false;
      tensors[i] = Ref::to(tensor);
      exchange::Tensor view;
      if (referent(array.storage) == nullptr || reader.api->read(tensor, &view) != 0 ||
          view.first() != array.first || Layout::of(view) != array.layout ||
          (array.counts_writes && reader.version_of(tensor) != array.version)) {
        PyErr_Clear();
        return false;
      }
    }
    return true;
  }

 private:
  static Fact fact_at(const Place& place, const Dictionaries& of) {
    Ref name = Ref::of_new(PyUnicode_InternFromString(place.name));
    return {place.holder, name, Ref::to(item(of[place.holder], name.get()))};
  }

  static bool add(const Fact& found, const Reader& reader, std::vector<Array>& to) {
    static PyObject* const untyped_storage = PyUnicode_InternFromString("untyped_storage");
    static PyObject* const is_inference = PyUnicode_InternFromString("is_inference");
    PyObject* const tensor = found.value.get();
    exchange::Tensor view;
    if (!reader.is_tensor(tensor) || reader.api->read(tensor, &view) != 0 || view.dimensions > 2) {
      return false;
    }
    // Copied, because what follows may let another thread resize the tensor.
    void* const first = view.first();
    const auto layout = Layout::of(view);
    // Codes are usually integers: DLPack's types 0 and 1.
    const bool is_trainable = found.holder == of_parameters && view.type.code > 1;
    const auto get = [&](PyObject* method) {
      return Ref::of_new(PyObject_CallMethodObjArgs(tensor, method, nullptr));
    };
    const Ref storage = get(untyped_storage);
    if (!storage) return false;
    const bool counts_writes = get(is_inference).get() == Py_False;
    to.push_back({found.holder, found.name, tensor,
                  Ref::of_new(PyWeakref_NewRef(storage.get(), nullptr)), counts_writes,
                  is_trainable, first, layout, counts_writes ? reader.version_of(tensor) : 0});
    return to.back().storage && to.back().version >= 0;
  }

  std::vector<Product> products_;
  std::size_t oldest_ = 0;
};

}  // namespace reprolab::layers
