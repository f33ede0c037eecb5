import { ConfigError } from '../../model/errors.ts';
import { renderFaults, type Fault } from './fault.ts';
import type { RefusedSource } from '../settings.ts';

/** All faults in one message, one per line: `file:line:column  field: expected …, got …`. */
export function settingsError(...refused: readonly Pick<RefusedSource, 'faults'>[]): ConfigError {
  const faults: Fault[] = refused.flatMap((source) => source.faults);
  return new ConfigError('settings_invalid', renderFaults(faults), {
    hint: 'Correct the lines above; `content-sync config schema` prints what an editor needs to help with it.',
  });
}
