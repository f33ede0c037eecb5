import type { ApiClient } from '../../http/client.ts';
import type { Warning } from '../warnings.ts';
import { itemProof } from './proof.ts';

/** Told in every run after a record that was read alone turned out to be another one than the listed. */
export function itemWarnings(client: ApiClient, resource: string, scrub: (text: string) => string): Warning[] {
  const { fault } = itemProof(client, resource);
  if (fault === null) return [];
  return [
    {
      code: 'item_unproved',
      message: scrub(`records read alone are not believed: ${fault.detail}`),
      hint: 'set item, item_query and item_record so that the answer is the listed record, or `item: null`; `accept: [item]` takes what is read alone as it is',
    },
  ];
}
