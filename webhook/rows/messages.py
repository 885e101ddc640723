"""Messages about rows: problems of values and conditions, and why a job does not meet a condition."""

from typing import Final

from contract.placement import Placer

NOT_UNIQUE: Final = "has a value twice"
NO_SINGLE_DEVICE: Final = "one device is valid on every instance type: add 1"
reserved_role: Final = "{!r} cannot be a role: placeholders and match use this word for something else".format
takes_no_values: Final = "operator {} takes no values".format
needs_values: Final = "operator {} needs values".format
not_a_time: Final = "{!r} is not a string: write it as '2026-12-31T18:00:00Z'".format
too_early: Final = "{} is long past: a policy ends in {} at the earliest".format
not_ascending: Final = "is {!r}: the second number must be the larger".format
nested_value: Final = "a value cannot contain the placeholder of another value, $({})".format
other_peer: Final = "is {!r}: it must be $(job.name), or have no placeholder".format
NO_SUCH_SHAPE: Final = "unreachable: no shape of the table has these values"
NO_DEVICE_COUNTS: Final = "unreachable: the table has no deviceCounts"
no_such_family: Final = "unreachable: no family of the table has such a name; the table has {}".format
no_such_field: Final = "no workload of the rule ({}) has a field {!r}".format
unknown_label: Final = "the webhook knows only the label {}, not {}".format

# ---- Why a job does not meet a condition -------------------------------------------------------------------

other_family: Final = "its machines are {}, not {}".format
no_shape: Final = "a {} has no shape".format
other_shape: Final = "shape {} has {} {}, not {}".format
other_placer: Final = "it is placed by {}, not by {}".format
PLACERS: Final = {Placer.SCHEDULER: "the scheduler", Placer.WHOLE_JOB: "whole-job admission", "": "no placer"}
other_devices: Final = "the way in which its workers get devices is {}, not {}".format
NUMBERED: Final = {True: "every pod has a number of its own", False: "not every pod has a number of its own"}
requests_none: Final = "the {} asks for none of {}".format
no_image: Final = "the {} has no image that is {}".format
NO_INSTANCE_TYPE: Final = "no instance type"
other_instance_type: Final = "the {} names {}, not {}".format
not_excluded: Final = "the {} does not exclude nodes with the rule's values of {}".format
valid_count: Final = "the {} requests no number of devices that deviceCounts excludes".format
other_workers: Final = "it has {} workers, not {}".format
no_field: Final = "a {} has no field {}".format
other_value: Final = "{} is {}, not {}".format
of_owner: Final = "{} of the {}".format
