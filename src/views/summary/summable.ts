import type { ColumnType } from '../../model/vocabulary.ts';
import type { PlannedColumn, PlannedView } from '../planned-view.ts';

/**
 * The columns whose values add up. Left out are references, numbers whose names end in a word for a key, a size, a place,
 * an order, a calendar unit, a version or a ratio, and beside a currency all decimals and amounts of money.
 */
export function summable({ columns }: PlannedView): PlannedColumn[] {
  const references = new Set(columns.filter(({ references: to }) => to !== null).map(({ source }) => source));
  const hasCurrency = columns.some(({ name, type }) => type === 'text' && CURRENCY.test(name));
  return columns.filter(({ name, type, source, isEmpty }) => {
    if (isEmpty === true) return false;
    if (!NUMBERS.has(type) || source === null || references.has(source) || NOT_ADDED.has(name.split('_').at(-1) ?? ''))
      return false;
    return !hasCurrency || (type === 'integer' && !MONEY.test(name));
  });
}

const NUMBERS: ReadonlySet<ColumnType> = new Set(['integer', 'double', 'numeric']);

const NOT_ADDED: ReadonlySet<string> = new Set(
  [
    'id ids key uid pk number no code zip postcode phone hash author parent media user owner editor',
    'width height depth length x y z lat latitude lon lng long longitude altitude zoom',
    'position index order rank level priority weight page offset',
    'year quarter month week day weekday hour minute second date at timestamp epoch age',
    'version revision generation status state type',
    'rate ratio percent percentage share fraction average avg mean median min max score rating quality temperature',
  ].flatMap((words) => words.split(' ')),
);

const CURRENCY = /(^|_)currency(_code)?$/;
const MONEY =
  /(^|_)(amount|price|total|subtotal|tax|cost|fee|revenue|discount|balance|paid|net|gross|value|income|spend|refund|cents)(_|$)/;
