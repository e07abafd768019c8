package dwarf

// These are tags (7.5.3).
const (
	tagCompileUnit       = 0x11
	tagSubprogram        = 0x2e
	tagInlinedSubroutine = 0x1d
	tagPartialUnit       = 0x3c
	tagSkeletonUnit      = 0x4a
	tagCallSite          = 0x48
	tagGNUCallSite       = 0x4109
)

// These are the tags of entries that Entry reads.
const (
	TagArrayType       = 0x01
	TagClassType       = 0x02
	TagEnumerationType = 0x04
	TagFormalParameter = 0x05
	TagMember          = 0x0d
	TagPointerType     = 0x0f
	TagReferenceType   = 0x10
	TagStructType      = 0x13
	TagSubroutineType  = 0x15
	TagTypedef         = 0x16
	TagUnionType       = 0x17
	TagInheritance     = 0x1c
	TagMemberPointer   = 0x1f
	TagSubrangeType    = 0x21
	TagBaseType        = 0x24
	TagConstType       = 0x26
	TagSubprogram      = tagSubprogram
	TagEnumerator      = 0x28
	TagVariantPart     = 0x33 // of Rust's enums
	TagVolatileType    = 0x35
	TagRestrictType    = 0x37
	TagUnspecifiedType = 0x3b // C++'s std::nullptr_t
	TagRvalueReference = 0x42
	TagAtomicType      = 0x47
	TagParameterPack   = 0x4107 // of C++'s variadic templates, with the parameters inside
)

// These are calling conventions of functions (7.8.2) and of classes (7.8.1 of DWARF 5).
const (
	CallNotByABI     = 3 // DW_CC_nocall: the parameters are not passed by the ABI
	PassedByAddress  = 4 // DW_CC_pass_by_reference
	PassedByContents = 5 // DW_CC_pass_by_value
)

// These are encodings of base types (7.8).
const (
	EncodingAddress      = 0x01
	EncodingBoolean      = 0x02
	EncodingComplexFloat = 0x03
	EncodingFloat        = 0x04
	EncodingSigned       = 0x05
	EncodingSignedChar   = 0x06
	EncodingUnsigned     = 0x07
	EncodingUnsignedChar = 0x08
	EncodingDecimalFloat = 0x0f
	EncodingUTF          = 0x10 // char16_t, Rust's char
	EncodingUCS          = 0x11
	EncodingASCII        = 0x12
)

// These are attributes (7.5.4).
const (
	attrSibling        = 0x01
	attrName           = 0x03
	attrStmtList       = 0x10
	attrLowPC          = 0x11
	attrHighPC         = 0x12
	attrCompDir        = 0x1b
	attrAbstractOrigin = 0x31
	attrSpecification  = 0x47
	attrRanges         = 0x55
	attrProducer       = 0x25
	attrCallColumn     = 0x57
	attrCallFile       = 0x58
	attrCallLine       = 0x59
	attrLanguage       = 0x13
	attrLinkageName    = 0x6e
	attrStrOffsetsBase = 0x72
	attrAddrBase       = 0x73
	attrRnglistsBase   = 0x74
	attrDwoName        = 0x76
	attrLoclistsBase   = 0x8c
	attrMIPSLinkage    = 0x2007
	attrGNUDwoName     = 0x2130
	attrGNUDwoID       = 0x2131
	attrGNURangesBase  = 0x2132
	attrGNUAddrBase    = 0x2133
)

// form is the encoding of a value (7.5.6): the standard's number, or our own for the GNU
// extensions of split DWARF and dwz.
type form uint8

// formOf returns the form with the number n in a file.
func formOf(n uint64) form {
	if n <= uint64(formAddrx4) {
		return form(n)
	}
	switch n {
	case 0x1f01: // DW_FORM_GNU_addr_index
		return formGNUAddrIndex
	case 0x1f02: // DW_FORM_GNU_str_index
		return formGNUStrIndex
	case 0x1f20: // DW_FORM_GNU_ref_alt
		return formGNURefAlt
	case 0x1f21: // DW_FORM_GNU_strp_alt
		return formGNUStrpAlt
	}
	return formUnknown
}

const (
	formAddr          form = 0x01
	formBlock2        form = 0x03
	formBlock4        form = 0x04
	formData2         form = 0x05
	formData4         form = 0x06
	formData8         form = 0x07
	formString        form = 0x08
	formBlock         form = 0x09
	formBlock1        form = 0x0a
	formData1         form = 0x0b
	formFlag          form = 0x0c
	formSdata         form = 0x0d
	formStrp          form = 0x0e
	formUdata         form = 0x0f
	formRefAddr       form = 0x10
	formRef1          form = 0x11
	formRef2          form = 0x12
	formRef4          form = 0x13
	formRef8          form = 0x14
	formRefUdata      form = 0x15
	formIndirect      form = 0x16
	formSecOffset     form = 0x17
	formExprloc       form = 0x18
	formFlagPresent   form = 0x19
	formStrx          form = 0x1a
	formAddrx         form = 0x1b
	formRefSup4       form = 0x1c
	formStrpSup       form = 0x1d
	formData16        form = 0x1e
	formLineStrp      form = 0x1f
	formRefSig8       form = 0x20
	formImplicitConst form = 0x21
	formLoclistx      form = 0x22
	formRnglistx      form = 0x23
	formRefSup8       form = 0x24
	formStrx1         form = 0x25
	formStrx2         form = 0x26
	formStrx3         form = 0x27
	formStrx4         form = 0x28
	formAddrx1        form = 0x29
	formAddrx2        form = 0x2a
	formAddrx3        form = 0x2b
	formAddrx4        form = 0x2c
	formGNUAddrIndex  form = 0xf1
	formGNUStrIndex   form = 0xf2
	formGNURefAlt     form = 0xf3
	formGNUStrpAlt    form = 0xf4
	// formFarConst is a formImplicitConst of more than 32 bits: attrSpec.n is its offset in
	// .debug_abbrev.
	formFarConst form = 0xfd
	formSkip     form = 0xfe // values that are not needed: attrSpec.n bytes
	formUnknown  form = 0xff
)

// These are unit types (7.5.1).
const (
	utType      = 0x02
	utSkeleton  = 0x04
	utSplit     = 0x05
	utSplitType = 0x06
)
