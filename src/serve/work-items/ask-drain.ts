import type { ExecuteSql } from '../../warehouse/database.ts';
import { insertItem } from './insert-item.ts';

/**
 * Asks for the deliveries of a source (by its `queueName`) to be worked on, in the transaction that stores them: one statement, which writes
 * nothing where the same is asked for already. The queue must have been opened once on this database.
 */
export async function askDrain(source: string, execute: ExecuteSql): Promise<void> {
  await insertItem({ kind: 'drain', source }, execute);
}
