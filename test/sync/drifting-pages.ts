/** 1,600 records in which one field is a time, a list and an object, and then one in which each is something else. */
export function driftingPages(): string[][] {
  const records = Array.from({ length: 1_600 }, (_, index) => {
    const minute = String(index % 60).padStart(2, '0');
    return `{"id":"${index}","at":"2024-01-01T10:${minute}:00+02:00","meta":{"n":${index}},"list":[${index},"${index}"]}`;
  });
  const last = '{"id":"last","at":"soon","meta":"none","list":[true,{"deep":1}]}';
  return [records, [last]];
}
