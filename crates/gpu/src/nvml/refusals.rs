//! What a survey does with a call that the driver refuses: where that leaves open what there is, what the survey before had
//! stays, and the refusal is reported with its code.

use crate::code::Code;
use crate::field::FieldValue;
use crate::frame::{GpuSurvey, LinkSurvey, Refusal};

/// The refusals of one GPU, and what the survey before had of it.
pub(super) struct Refusals<'b> {
    index: u32,
    pub before: Option<&'b GpuSurvey>,
    list: Vec<Refusal>,
}

impl<'b> Refusals<'b> {
    pub(super) fn new(index: u32, before: Option<&'b GpuSurvey>) -> Self {
        Self { index, before, list: Vec::new() }
    }

    /// Takes note of a refused call, once for each function and code.
    pub(super) fn note(&mut self, call: &'static str, code: Code, values: u64) {
        let same = self.list.iter_mut().find(|known| known.call == call && known.code == code.0);
        match same {
            Some(known) => known.values += values,
            None => {
                self.list.push(Refusal { index: self.index, call: call.to_owned(), code: code.0, values })
            }
        }
    }

    /// An answer; none where there is nothing of the kind; what was known before where the driver refuses.
    pub(super) fn or_before<T>(
        &mut self,
        call: &'static str,
        answer: Result<T, Code>,
        before: impl FnOnce(&GpuSurvey) -> Option<T>,
    ) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(code) if code.is_absence() => None,
            Err(code) => {
                self.note(call, code, 1);
                self.before.and_then(before)
            }
        }
    }

    /// The same of a link's call. That there is no such link is no refusal.
    pub(super) fn of_link_or_before<T>(
        &mut self,
        call: &'static str,
        link: u32,
        answer: Result<T, Code>,
        before: impl FnOnce(&LinkSurvey) -> Option<T>,
    ) -> Option<T> {
        let answer = answer.map_err(|code| match code {
            Code::INVALID_ARGUMENT => Code::NOT_SUPPORTED,
            code => code,
        });
        self.of_field_or_before(call, link, answer, before)
    }

    /// The same of a field of a link.
    pub(super) fn of_field_or_before<T>(
        &mut self,
        call: &'static str,
        link: u32,
        answer: Result<T, Code>,
        before: impl FnOnce(&LinkSurvey) -> Option<T>,
    ) -> Option<T> {
        self.or_before(call, answer, |known| known.links.iter().find(|one| one.link == link).and_then(before))
    }

    pub(super) fn into_list(self) -> Vec<Refusal> {
        self.list
    }
}

/// The first family with an answer. Where none has one, that of the plan before if it is among them: a driver that refuses for a
/// while has not changed what the GPU counts. Else the first of all, so that its reasons are counted.
pub(super) fn chosen(
    families: Vec<Vec<FieldValue>>,
    answers: impl Fn(&[FieldValue]) -> bool,
    before: Option<&Vec<FieldValue>>,
) -> Vec<FieldValue> {
    let place = families.iter().position(|family| answers(family));
    let is_before = |family: &Vec<FieldValue>| before.is_some_and(|before| are_same(before, family));
    let place = place.or_else(|| families.iter().position(is_before)).unwrap_or(0);
    families.into_iter().nth(place).unwrap_or_default()
}

/// The fields where one answers now, or where one did in the plan before.
pub(super) fn where_any_answers(
    fields: Vec<FieldValue>,
    answers: impl Fn(&[FieldValue]) -> bool,
    before: Option<&Vec<FieldValue>>,
) -> Vec<FieldValue> {
    let stays = answers(&fields) || before.is_some_and(|before| are_same(before, &fields));
    if stays { fields } else { Vec::new() }
}

fn are_same(one: &[FieldValue], other: &[FieldValue]) -> bool {
    let keys =
        |values: &[FieldValue]| values.iter().map(|value| (value.field, value.scope)).collect::<Vec<_>>();
    !one.is_empty() && keys(one) == keys(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(field: u32, scope: u32) -> FieldValue {
        FieldValue { field, scope, ..FieldValue::default() }
    }

    #[test]
    fn an_absence_is_none_and_a_refusal_keeps_what_was_known() {
        let links = vec![LinkSurvey { link: 3, version: Some(6), ..LinkSurvey::default() }];
        let before = GpuSurvey { name: "H200".into(), links, ..GpuSurvey::default() };
        let mut refusals = Refusals::new(2, Some(&before));
        let name = |known: &GpuSurvey| Some(known.name.clone());
        assert_eq!(refusals.or_before("name", Err(Code::NOT_SUPPORTED), name), None);
        assert_eq!(refusals.or_before("name", Err(Code(999)), name).as_deref(), Some("H200"));
        let version = |known: &LinkSurvey| known.version;
        assert_eq!(refusals.of_link_or_before("version", 3, Err(Code::GPU_IS_LOST), version), Some(6));
        assert_eq!(refusals.of_link_or_before("version", 4, Err(Code::GPU_IS_LOST), version), None);
        assert_eq!(refusals.of_link_or_before("version", 3, Err(Code::INVALID_ARGUMENT), version), None);
        let list: Vec<(String, u32, u64)> =
            refusals.into_list().into_iter().map(|one| (one.call, one.code, one.values)).collect();
        assert_eq!(list, [("name".to_owned(), 999, 1), ("version".to_owned(), 15, 2)]);
    }

    #[test]
    fn a_family_that_answered_before_stays_while_none_answers() {
        let families = || vec![vec![field(138, 0)], vec![field(202, 0)]];
        let bytes = vec![field(202, 0)];
        assert_eq!(chosen(families(), |_| false, None)[0].field, 138);
        assert_eq!(chosen(families(), |_| false, Some(&bytes))[0].field, 202);
        assert_eq!(chosen(families(), |family| family[0].field == 138, Some(&bytes))[0].field, 138);
        assert!(where_any_answers(bytes.clone(), |_| false, None).is_empty());
        assert_eq!(where_any_answers(bytes.clone(), |_| false, Some(&bytes)), bytes);
    }
}
