import type { Warning } from '../warnings.ts';

const WALKED = 'everything was walked instead';
const ACCEPTED = 'nothing else was walked, because the profile accepts it';

interface Doubt {
  resource: string;
  param: string;
  isAccepted: boolean;
}

/** The record that set the cursor was not among what the filter listed, although the service has it as it was. */
export function notBelieved({ resource, param, isAccepted }: Doubt, key: string, since: string): Warning {
  return {
    code: 'filter_not_believed',
    message: `${param}=${since} does not list the record ${key}, which changed after that: ${isAccepted ? ACCEPTED : WALKED}`,
    hint: `see what \`content-sync check ${resource}\` says of the filter; set incremental.param, format and overlap right, or \`incremental: null\``,
  };
}

/** Everything was walked, and what changed meanwhile is asked for with a filter that does not list all of it. */
export function unprovedCatchUp({ resource, param }: Doubt): Warning {
  return {
    code: 'catch_up_unproved',
    message: `records changed while everything was walked, and ${param} does not list all that it must: some may be missing`,
    hint: `run it again when less is changed; see what \`content-sync check ${resource}\` says of the filter, or set \`incremental: null\``,
  };
}

/** There are rows, and none by which the filter can be tried. */
export function nothingToTry({ resource, param, isAccepted }: Doubt): Warning {
  return {
    code: 'filter_not_believed',
    message: `no record has a time of change by which ${param} could be tried: ${isAccepted ? ACCEPTED : WALKED}`,
    hint: `name the field that holds the time of change as \`updated\` of ${resource}, or set \`incremental: null\``,
  };
}

/** Rows that have no time of change: a filter by time never lists them. */
export function untimedRecords({ resource, param, isAccepted }: Doubt, count: number): Warning {
  const records = count === 1 ? '1 record has' : `${count} records have`;
  return {
    code: 'records_without_updated',
    message: `${records} no time of change, so ${param} never lists them: ${isAccepted ? ACCEPTED : WALKED}`,
    hint: `name another field as \`updated\` of ${resource} in the profile, or set \`incremental: null\``,
  };
}

/** Everything is listed, or much more than was asked for. */
export function ignoredFilter({ resource, param }: Doubt, since: string, oldest: number): Warning {
  return {
    code: 'filter_ignored',
    message: `${param}=${since} also lists what last changed at ${new Date(oldest).toISOString()}: the service ignores it or reads it otherwise`,
    hint: `see what \`content-sync check ${resource}\` says of the filter; nothing is lost, but every sync reads so much`,
  };
}
