# A ReFrame check that measures the I/O bandwidth model of a node and compares its classes with
# references of the group of like machines. See README.md.

import json
import os

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_before, sanity_function, variable

MODEL_SCHEMA = 'numaio/model/1'


def performance_of(model):
    '''Returns the slowest node of each class in GB/s, by target node, direction and class.'''
    values = {}
    for target in model['targets']:
        for direction in target['directions']:
            for group in direction['classes']:
                name = f"node{target['target']}_{direction['direction']}_class{group['rank']}"
                # JSON has no bandwidth for a class that was not measured.
                if group.get('min_bytes_copied_per_s'):
                    values[name] = group['min_bytes_copied_per_s'] / 1e9
    return values


@rfm.simple_test
class NumaioModel(rfm.RunOnlyRegressionTest):
    '''numaio model: bandwidth between the nodes with devices and all other nodes.'''

    descr = 'I/O bandwidth by NUMA node (numaio model)'
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'numaio'
    # Options of numaio model, such as --all or --time-limit 120.
    options = variable(typ.List[str], value=['--all'])
    # JSON file: fingerprint of a group -> name of a value -> GB/s.
    references = variable(str, value=os.environ.get('NUMAIO_REFERENCES', ''))
    # Share by which a value may be below its reference.
    tolerance = variable(float, value=0.05)
    num_tasks = 1
    num_tasks_per_node = 1
    exclusive_access = True
    time_limit = '30m'

    @run_before('run')
    def set_options(self):
        self.executable_opts = ['model', '--json', '--quiet', *self.options]

    @property
    def model(self):
        with open(os.path.join(self.stagedir, str(self.stdout))) as file:
            return json.load(file)

    @sanity_function
    def is_complete_model(self):
        model = self.model
        return sn.all([
            sn.assert_eq(model['schema'], MODEL_SCHEMA),
            sn.assert_true(model['record']['complete'], msg='the measurement is not complete'),
            sn.assert_true(model['targets'], msg='no target node was measured'),
        ])

    @run_before('performance')
    def set_performance(self):
        model = self.model
        values = performance_of(model)
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(value), 'GB/s') for name, value in values.items()
        }
        expected = self.group_references(model['record']['machine']['fingerprint'])
        # A class that is missing is a change of the machine, not a value without a reference.
        missing = sorted(set(expected) - set(values))
        sn.evaluate(sn.assert_false(missing, msg=f'classes without a value: {", ".join(missing)}'))
        self.reference = {
            '*': {name: (value, -self.tolerance, None, 'GB/s') for name, value in expected.items()}
        }

    def group_references(self, fingerprint):
        if not self.references:
            return {}
        with open(self.references) as file:
            return json.load(file).get(fingerprint, {})


if __name__ == '__main__':
    # Prints references of a group from models: numaio_check.py MODEL.json... >references.json
    import statistics
    import sys

    groups = {}
    for path in sys.argv[1:]:
        with open(path) as file:
            document = json.load(file)
        for model in document.get('documents', [document]):
            if model.get('schema') != MODEL_SCHEMA:
                continue
            group = groups.setdefault(model['record']['machine']['fingerprint'], {})
            for name, value in performance_of(model).items():
                group.setdefault(name, []).append(value)
    medians = {
        fingerprint: {name: round(statistics.median(values), 6) for name, values in group.items()}
        for fingerprint, group in groups.items()
    }
    json.dump(medians, sys.stdout, indent=2)
    print()
