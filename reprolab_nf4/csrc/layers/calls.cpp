#include "reprolab_nf4/csrc/layers/calls.hpp"

#include <algorithm>

namespace reprolab::layers {
namespace {

constexpr int max_dimensions = 8;
constexpr std::int32_t cpu = 1, cuda = 2;  // DLPack's device types
constexpr exchange::ElementType fp16{2, 16, 1}, bf16{4, 16, 1};

/// Whether x is dense and row-major. `rows`: the product of all sizes but the last.
bool is_contiguous(const exchange::Tensor& x, std::int64_t& rows) {
  std::int64_t stride = 1;
  for (int i = x.dimensions - 1; i >= 0; --i) {
    if (x.shape[i] != 1 && x.strides[i] != stride) return false;
    stride *= x.shape[i];
  }
  const std::int64_t last = x.shape[x.dimensions - 1];
  rows = last > 0 ? stride / last : 0;
  return true;
}

/// `tensor`: null or None if there is none.
bool requires_grad(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  if (tensor == nullptr || tensor == Py_None) return false;
  const auto value = Ref::of_new(PyObject_GetAttr(tensor, name));
  if (!value) PyErr_Clear();
  return value.get() != Py_False;
}

bool is_fp4(PyObject* state) {
  static PyObject* const name = PyUnicode_InternFromString("quant_type");
  PyObject* const type = item(state, name);
  return type != nullptr && PyUnicode_Check(type) &&
         PyUnicode_CompareWithASCIIString(type, "fp4") == 0;
}

/// A tuple of numbers, or null.
template <class Get>
Ref tuple_of(int count, const Get& get) {
  auto tuple = Ref::of_new(PyTuple_New(count));
  for (int i = 0; tuple && i < count; ++i) {
    PyObject* const number = PyLong_FromLongLong(get(i));
    if (number == nullptr || PyTuple_SetItem(tuple.get(), i, number) != 0) return {};
  }
  return tuple;
}

/// Whether the latest output has the sizes of x, except for the last.
bool has_sizes(PyObject* output, const exchange::Tensor& x) {
  PyObject* const sizes = output == nullptr ? nullptr : PyTuple_GetItem(output, 0);
  if (sizes == nullptr || PyTuple_Size(sizes) != x.dimensions) return false;
  for (int i = 0; i + 1 < x.dimensions; ++i) {
    if (PyLong_AsLongLong(PyTuple_GetItem(sizes, i)) != x.shape[i]) return false;
  }
  return true;
}

}  // namespace

bool Calls::is_in_use() {
  return given_.make && std::ranges::all_of(given_.settings, [](const Setting& setting) {
           return item(setting.dictionary.get(), setting.name.get()) == setting.value.get();
         });
}

bool Calls::is_idle() {
  return std::ranges::all_of(given_.guards, [](const Guard& guard) {
    const auto state = Ref::of_new(PyObject_CallNoArgs(guard.function.get()));
    if (!state) PyErr_Clear();
    return state.get() == guard.idle.get();
  });
}

bool Calls::needs_gradient(PyObject* tensor) {
  if (!requires_grad(tensor)) return false;
  const auto enabled = Ref::of_new(PyObject_CallNoArgs(given_.grad_is_enabled.get()));
  if (!enabled) PyErr_Clear();
  return enabled.get() != Py_False;
}

/// Whether x is an input that a plan supports, for some number of rows.
bool Calls::read(PyObject* x, exchange::Tensor& view, Product& product) {
  if (!given_.reader.is_plain(x)) return false;
  if (given_.reader.api->read(x, &view) != 0) {
    PyErr_Clear();
    return false;
  }
  product = {0, view.type, view.device, {}};
  return (view.type == fp16 || view.type == bf16) && view.dimensions >= 1 &&
         view.dimensions <= max_dimensions && is_contiguous(view, product.m) && product.m > 0 &&
         view.data != nullptr && reinterpret_cast<std::uintptr_t>(view.first()) % 16 == 0;
}

/// Null with an exception.
std::shared_ptr<Layer> Calls::layer_of(PyObject* module) {
  if (const auto known = layers_.find(module); known != layers_.end()) return known->second;
  auto layer = std::make_shared<Layer>();
  layer->module = Ref::of_new(PyWeakref_NewRef(module, weak_callback.get()));
  if (!layer->module) return nullptr;
  return layers_[module] = std::move(layer);
}

/// The cheapest checks are first, that of x's gradient in attempt(): what is bitsandbytes' own is
/// left to it, recorded or not.
Calls::Decision Calls::decide(PyObject* module, PyObject* x, const Product& wanted, Arrays& arrays,
                              Ref& plan) {
  static PyObject* const bias = PyUnicode_InternFromString("bias");
  if (wanted.m > given_.max_rows) return Decision::leave;
  const Dictionaries of = dictionaries_of(module, given_.classes);
  const Ref own_bias = Ref::to(item(of[of_parameters], bias));
  if (is_fp4(of[of_state]) || needs_gradient(own_bias.get())) return Decision::leave;
  const auto layer = layer_of(module);
  if (layer == nullptr) return Decision::forward;
  if (const Product* const product = layer->find(wanted)) plan = product->plan;
  if (plan.get() == Py_None) return Decision::forward;
  if (plan.get() == Py_False) return Decision::leave;
  if (!is_idle() || given_.reader.is_negative(x)) return Decision::forward;
  // Found again: what ran since may have let another thread replace the dictionaries.
  if (!plan ||
      !layer->is_current(module, dictionaries_of(module, given_.classes), given_.reader, arrays)) {
    return Decision::make;
  }
  for (std::size_t i = 0; i < layer->arrays.size(); ++i) {
    if (!layer->arrays[i].is_trainable) continue;
    if (needs_gradient(arrays[i].get())) return Decision::leave;
    if (given_.reader.is_negative(arrays[i].get())) return Decision::forward;
  }
  return Decision::run;
}

/// `output`: of the plan; null if none ran, or it failed. Leaves no exception.
Calls::Decision Calls::attempt(PyObject* module, PyObject* x, Ref& output) {
  exchange::Tensor view;
  Product wanted;
  if (!is_in_use() || !given_.reader.is_plain(x)) return Decision::forward;
  if (needs_gradient(x)) return Decision::leave;
  if (!read(x, view, wanted)) return Decision::forward;
  Arrays arrays;  // kept alive while another thread may run
  Ref plan;
  const Decision decision = decide(module, x, wanted, arrays, plan);
  if (decision == Decision::run) output = run(*reinterpret_cast<Plan*>(plan.get()), view);
  PyErr_Clear();
  return decision;
}

PyObject* Calls::call(PyObject* module, PyObject* x) {
  static PyObject* const training = PyUnicode_InternFromString("training");
  const bool infers = item(dictionary_of(module), training) == Py_False;
  Ref output;
  Decision decision = infers ? attempt(module, x, output) : Decision::leave;
  if (decision == Decision::make) {
    const Ref make = given_.make;  // close() releases it
    const auto is_planned =
        Ref::of_new(PyObject_CallFunctionObjArgs(make.get(), module, x, nullptr));
    // For a malformed layer forward raises bitsandbytes' own error.
    if (!is_planned && !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyErr_Clear();
    if (is_planned.get() == Py_True) decision = attempt(module, x, output);
  }
  if (output) return output.release();
  if (decision == Decision::leave) return leave(module, x);
  // A run that failed is repeated by forward, which raises the error. close() releases it.
  const Ref forward = given_.forward;
  return PyObject_CallFunctionObjArgs(forward.get(), module, x, nullptr);
}

PyObject* Calls::leave(PyObject* module, PyObject* x) {
  static PyObject* const is_on = PyUnicode_InternFromString("is_on");
  const auto before = Ref::of_new(PyObject_GetAttr(given_.left.get(), is_on));
  if (!before || PyObject_SetAttr(given_.left.get(), is_on, Py_True) != 0) return nullptr;
  PyObject* const output = PyObject_CallFunctionObjArgs(given_.forward.get(), module, x, nullptr);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject_SetAttr(given_.left.get(), is_on, before.get());
  PyErr_Restore(type, value, traceback);
  return output;
}

/// Null on failure, perhaps with an exception.
Ref Calls::run(Plan& plan, const exchange::Tensor& x) {
  void *stream = nullptr, *first = nullptr, *workspace = nullptr;
  if (x.shape[x.dimensions - 1] != plan.k ||
      given_.reader.api->current_stream(x.device.type, x.device.index, &stream) != 0) {
    return {};
  }
  const Ref arguments = output_for(plan, x);
  Ref output = arguments ? allocate(plan, x.device, arguments.get(), first) : Ref(), kept;
  if (!output) return {};
  if (plan.workspace_bytes > 0) {
    const Workspace* const memory = workspace_for(plan, x.device, stream);
    if (memory == nullptr) return {};
    kept = memory->tensor;
    workspace = memory->first;
  }
  // A launch may wait for the GPU, and the GPU for a callback that needs the interpreter.
  PyThreadState* const thread = PyEval_SaveThread();
  const int error = plan.run(plan.handle, x.first(), first, plan.weights_ready, workspace, stream);
  PyEval_RestoreThread(thread);
  if (error != 0) return {};
  plan.weights_ready = plan.counts_writes;
  return output;
}

/// The output's sizes, strides and type; null with an exception.
Ref Calls::output_for(Plan& plan, const exchange::Tensor& x) {
  if (has_sizes(plan.output, x)) return Ref::to(plan.output);
  const int last = x.dimensions - 1;
  const auto size = [&](int i) { return i == last ? plan.n : x.shape[i]; };
  std::int64_t strides[max_dimensions];
  strides[last] = 1;
  for (int i = last; i > 0; --i) strides[i - 1] = strides[i] * size(i);
  const Ref sizes = tuple_of(x.dimensions, size);
  const Ref steps = tuple_of(x.dimensions, [&](int i) { return strides[i]; });
  if (!sizes || !steps) return {};
  auto arguments = Ref::of_new(PyTuple_Pack(3, sizes.get(), steps.get(), plan.type));
  if (arguments) {
    Py_XDECREF(plan.output);
    plan.output = Py_NewRef(arguments.get());
  }
  return arguments;
}

/// A tensor on the plan's device; null, perhaps with an exception, on failure.
Ref Calls::allocate(Plan& plan, const exchange::Device& device, PyObject* arguments, void*& first) {
  const Ref& on_current = device.type == cuda ? given_.allocate_on_gpu : given_.allocate_on_cpu;
  PyObject* const function = plan.is_on_current ? on_current.get() : plan.allocate;
  auto tensor = Ref::of_new(PyObject_CallObject(function, arguments));
  if (!tensor) return {};
  exchange::Tensor view;
  if (given_.reader.api->read(tensor.get(), &view) == 0 && view.device == device) {
    first = view.first();
    return tensor;
  }
  if (!plan.is_on_current) return {};
  PyErr_Clear();
  plan.is_on_current = false;  // the plan's later calls do not try again
  return allocate(plan, device, arguments, first);
}

/// All products on a stream share one workspace, since they run one after another. Null, perhaps
/// with an exception, on failure, and in a capture, whose memory is for its graph alone.
Calls::Workspace* Calls::workspace_for(Plan& plan, const exchange::Device& device, void* stream) {
  auto known = std::ranges::find_if(workspaces_, [&](const Workspace& workspace) {
    return workspace.device == device && workspace.stream == stream;
  });
  if (known != workspaces_.end() && known->bytes >= plan.workspace_bytes) return &*known;
  const auto capturing = Ref::of_new(PyObject_CallNoArgs(given_.is_capturing.get()));
  PyErr_Clear();  // without a GPU
  if (capturing.get() == Py_True) return nullptr;
  const auto bytes = static_cast<std::int64_t>(plan.workspace_bytes);
  const Ref sizes = tuple_of(1, [&](int) { return bytes; });
  const Ref strides = tuple_of(1, [](int) { return 1; });
  if (!sizes || !strides) return nullptr;
  const auto arguments =
      Ref::of_new(PyTuple_Pack(3, sizes.get(), strides.get(), given_.byte_type.get()));
  void* first = nullptr;
  Ref tensor = arguments ? allocate(plan, device, arguments.get(), first) : Ref();
  if (!tensor) return nullptr;
  known = std::ranges::find_if(workspaces_, [&](const Workspace& workspace) {
    return workspace.device == device && workspace.stream == stream;
  });
  if (known == workspaces_.end()) {
    known = workspaces_.insert(workspaces_.end(), {device, stream, nullptr, 0, {}});
  }
  known->bytes = plan.workspace_bytes;
  known->first = first;
  known->tensor = std::move(tensor);
  return &*known;
}

std::int64_t Calls::bind(PyObject* module) {
  const auto layer = layer_of(module);
  if (layer == nullptr) return 0;
  const Dictionaries of = dictionaries_of(module, given_.classes);
  Arrays arrays;
  const bool is_bound = layer->is_current(module, of, given_.reader, arrays) ||
                        layer->bind(module, dictionaries_of(module, given_.classes), given_.reader);
  return is_bound ? layer->generation : 0;
}

bool Calls::add(PyObject* module, PyObject* x, PyObject* plan, std::int64_t generation) {
  exchange::Tensor view;
  Product wanted;
  if (!given_.make || !read(x, view, wanted)) return true;
  const auto layer = layer_of(module);
  if (layer == nullptr) return false;
  if (layer->generation != generation) return true;  // another thread bound it again
  if (plan != Py_None && plan != Py_False) {
    reinterpret_cast<Plan*>(plan)->counts_writes = layer->counts_writes;
  }
  wanted.plan = Ref::to(plan);
  layer->add(std::move(wanted));
  return true;
}

void Calls::forget(PyObject* weak) {
  const auto ended = std::ranges::find_if(
      layers_, [&](const auto& known) { return known.second->module.get() == weak; });
  if (ended == layers_.end()) return;
  const auto kept = layers_.extract(ended);  // its destructor may call Python
}

void Calls::close() {
  const auto layers = std::exchange(layers_, {});
  const auto workspaces = std::exchange(workspaces_, {});
  given_.make = {};
  weak_callback = {};
}

}  // namespace reprolab::layers
