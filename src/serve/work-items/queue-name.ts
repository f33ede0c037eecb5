import { postgresPlace } from '../../warehouse/postgres/connection/address.ts';

/**
 * What a source is called in the queue: its schema, which belongs to one source of the database alone. Configs of
 * several processes may call different sources by the same name, as one for production and one for a trial do.
 */
export function queueName(address: string): string {
  return postgresPlace(address.replace(/^postgres(ql)?:/, '')).schema;
}
