// What is known of a layer, and whether it still holds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "reprolab_nf4/csrc/layers/exchange.hpp"
#include "reprolab_nf4/csrc/layers/object.hpp"

namespace reprolab::layers {

/// Objects whose dictionaries hold what a product is made of: the module, its `_parameters`, its
/// weight, that one's quant_state, and the state2 of nested scales.
enum Holder { of_module, of_parameters, of_weight, of_state, of_state2, holders };

/// The classes of a weight, as bitsandbytes makes it and as it is after pickling, and of its
/// states: others may compute what they hold.
struct Classes {
  Ref weight, parameter, state;
};

/// That a holder has this object under a name. Compared by identity.
struct Fact {
  int holder;
  Ref name, value;
};

/// A tensor that a holder has under a name, with its memory and the number of writes to it. It is
/// not kept alive: a model that is deleted or moved frees its memory at once. Nor does it get a
/// weak reference, with which torch.utils.swap_tensors would refuse it.
struct Array {
  int holder;
  Ref name;
  PyObject* tensor;    ///< By its address alone.
  Ref storage;         ///< Weak: other memory cannot be where this is.
  bool counts_writes;  ///< Tensors of inference mode do not.
  bool is_trainable;   ///< Whether the product has a gradient for it.
  void* first;
  long long version;
  Ref kept;  ///< The tensor, where the plan has its value: another cannot get its address.
};

inline constexpr int max_arrays = 6;  ///< Codes, scales, the three of nested scales, bias.
using Arrays = std::array<Ref, max_arrays>;

/// Products of that number of rows, type and device: a plan, None for those that are not planned,
/// or null for those that were called a few times.
struct Product {
  std::int64_t m;
  exchange::ElementType type;
  exchange::Device device;
  Ref plan;
  int calls_before = 1;  ///< That are still to come before a plan is made.

  bool is_for(const Product& other) const {
    return m == other.m && type == other.type && device == other.device;
  }
};

/// What torch gives to look at tensors.
struct Reader {
  const exchange::Api* api;
  Ref tensor;   ///< torch.Tensor
  Ref version;  ///< Gets Tensor._version.
  Ref plainly;  ///< Calls a function as if the classes of its arguments had no __torch_function__.

  bool is_plain(PyObject* object) const {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == tensor.get();
  }
  /// The count of writes, or -1 with an exception.
  long long version_of(PyObject* object) const {
    static PyObject* const name = PyUnicode_InternFromString("_version");
    static PyObject* const none = PyTuple_New(0);
    Ref found;
    if (is_plain(object)) {
      found = Ref::of_new(PyObject_GetAttr(object, name));
    } else {
      const auto arguments = Ref::of_new(PyTuple_Pack(1, object));
      if (!arguments) return -1;
      found = Ref::of_new(PyObject_CallFunctionObjArgs(plainly.get(), version.get(), none,
                                                       arguments.get(), nullptr));
    }
    return found ? PyLong_AsLongLong(found.get()) : -1;
  }
};

class Layer {
 public:
  Ref module;  ///< Weak.
  std::vector<Fact> facts;
  std::vector<Array> arrays;

  /// Null if there is none yet.
  Product* find(const Product& wanted) {
    for (Product& product : products_) {
      if (product.is_for(wanted)) return &product;
    }
    return nullptr;
  }
  /// In place of the oldest where there are many.
  void add(Product product) {
    product.calls_before = patience_;
    constexpr std::size_t max_products = 32;
    if (products_.size() < max_products) {
      products_.push_back(std::move(product));
    } else {
      products_[oldest_] = std::move(product);
      oldest_ = (oldest_ + 1) % max_products;
    }
  }
  void forget_products() { products_.clear(), oldest_ = 0; }
  /// Plans are made less and less often for a layer whose weights come anew with each call.
  void change() {
    constexpr int max_patience = 1024;
    forget_products();
    patience_ = std::min(2 * patience_, max_patience);
  }

  /// Whether all is as it was. Sets no exception. `found`: the arrays' tensors.
  bool is_current(PyObject* layer, const Classes& classes, const Reader& reader,
                  Arrays& found) const {
    std::array<PyObject*, holders> dictionaries{};
    if (facts.empty() || !find_holders(layer, classes, dictionaries)) return false;
    for (const Fact& fact : facts) {
      if (item(dictionaries[fact.holder], fact.name.get()) != fact.value.get()) return false;
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const Array& array = arrays[i];
      PyObject* const tensor = item(dictionaries[array.holder], array.name.get());
      if (tensor == nullptr || tensor != array.tensor) return false;
      found[i] = Ref::to(tensor);
      exchange::Tensor view;
      if (referent(array.storage) == nullptr || reader.api->read(tensor, &view) != 0 ||
          view.first() != array.first ||
          (array.counts_writes && reader.version_of(tensor) != array.version)) {
        PyErr_Clear();
        return false;
      }
    }
    return true;
  }

 private:
  /// Borrowed; null where there is none.
  static PyObject* item(PyObject* dictionary, PyObject* name) {
    return dictionary == nullptr ? nullptr : PyDict_GetItemWithError(dictionary, name);
  }
  /// Borrowed from the object; null for what has none.
  static PyObject* dictionary_of(PyObject* object) {
    const auto dictionary = Ref::of_new(PyObject_GenericGetDict(object, nullptr));
    if (!dictionary) PyErr_Clear();
    return dictionary.get();
  }
  static bool is_of(PyObject* object, const Ref& type) {
    return object != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.get();
  }

  static bool find_holders(PyObject* layer, const Classes& classes,
                           std::array<PyObject*, holders>& found) {
    static PyObject* const parameters = PyUnicode_InternFromString("_parameters");
    static PyObject* const weight = PyUnicode_InternFromString("weight");
    static PyObject* const quant_state = PyUnicode_InternFromString("quant_state");
    static PyObject* const state2 = PyUnicode_InternFromString("state2");
    found[of_module] = dictionary_of(layer);
    found[of_parameters] = item(found[of_module], parameters);
    // A dictionary of another class may give what it does not hold, as those of sharded models do.
    if (found[of_parameters] == nullptr || !PyDict_CheckExact(found[of_parameters])) return false;
    PyObject* const weights = item(found[of_parameters], weight);
    if (!is_of(weights, classes.weight) && !is_of(weights, classes.parameter)) return false;
    found[of_weight] = dictionary_of(weights);
    PyObject* const state = item(found[of_weight], quant_state);
    if (!is_of(state, classes.state)) return false;
    found[of_state] = dictionary_of(state);
    PyObject* const second = item(found[of_state], state2);
    if (is_of(second, classes.state)) found[of_state2] = dictionary_of(second);
    return true;
  }

  std::vector<Product> products_;
  std::size_t oldest_ = 0;
  int patience_ = 1;  ///< Calls before a plan.
};

}  // namespace reprolab::layers
