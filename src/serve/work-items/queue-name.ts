import { sharedDatabase } from '../../warehouse/databases.ts';

/**
 * What a source is called in the queue: its schema, which belongs to one source of the database alone. Configs of
 * several processes may call different sources by the same name, as one for production and one for a trial do.
 */
export function queueName(address: string): string {
  const shared = sharedDatabase(address);
  if (shared === null) throw new Error('no queue is kept where one process does all the work');
  return shared.namespace;
}
