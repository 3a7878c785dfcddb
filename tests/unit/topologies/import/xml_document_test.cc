#include "topologies/import/xml_document.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace xml_document_test {

using ::testing::HasSubstr;

TEST(XmlDocument, KeepsAllThatCounts) {
  const std::string text =
      "<?xml version=\"1.0\"?>\n<!-- above -->\n<!DOCTYPE platform SYSTEM \"x.dtd\">\n<a one=\"1\" "
      "two=\"&lt;&quot;&amp;&#10;\">\n  <!-- in -->\n"
      "  <?tool does that?>\n  <b>text &lt;&gt; and <c/> more</b>\n  <b/>\n</a>\n<!-- below -->\n";
  const auto document = ReadXml(text, "a.xml");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->type_system, "x.dtd");
  EXPECT_EQ(*document->root().Find("two"), "<\"&\n");
  EXPECT_EQ(document->root().children.size(), 4u);
  EXPECT_EQ(document->root().children[3].line, 8);
  EXPECT_EQ(document->root().Find("three"), nullptr);
  EXPECT_EQ(WriteXml(*document), text.substr(0, 22) + "<!-- above -->\n<!DOCTYPE platform SYSTEM \"x.dtd\">\n" +
                                     text.substr(text.find("<a ")));
  EXPECT_EQ(*ReadXml(WriteXml(*document), "again.xml"), *document);
}

TEST(XmlDocument, CdataIsText) {
  const auto document = ReadXml("<a>x<![CDATA[ <&> ]]>y</a>", "a.xml");
  ASSERT_TRUE(document.ok());
  ASSERT_EQ(document->root().children.size(), 1u);
  EXPECT_EQ(document->root().children[0].text, "x <&> y");
}

TEST(XmlDocument, EveryDifferenceIsOne) {
  const XmlDocument a = *ReadXml("<a x='1'><b/></a>", "a.xml");
  for (const char* other :
       {"<a x='2'><b/></a>", "<a y='1'><b/></a>", "<a x='1'><c/></a>", "<a x='1'/>", "<a x='1'><b/>t</a>",
        "<a x='1'><b/><!--t--></a>", "<!DOCTYPE a><a x='1'><b/></a>", "<?xml version='1.0'?><a x='1'><b/></a>"}) {
    EXPECT_FALSE(*ReadXml(other, "a.xml") == a) << other;
  }
}

TEST(XmlDocument, BadFilesAreRefusedByLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "a.xml:"},
      {"<a>\n<b>\n</a>", "a.xml:3: "},
      {"<a x='1' x='2'/>", "a.xml:1: Attribute x redefined"},
      {"<a/><b/>", "a.xml:1: Extra content"},
      {"<a>\n&bogus;</a>", "a.xml:2: Entity 'bogus' not defined"},
      {"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "a.xml:1: the document type contains definitions"},
      {"<a xmlns='u'/>", "namespaces (xmlns) are not supported"},
      {"<a x='\xff'/>", "a.xml:1: "},
      {"<a>&#0;</a>", "a.xml:1: "},
  };
  for (const auto& [text, message] : cases) {
    const auto document = ReadXml(text, "a.xml");
    ASSERT_FALSE(document.ok()) << text;
    EXPECT_THAT(std::string(document.status().message()), HasSubstr(message)) << text;
  }
}

TEST(XmlDocument, DepthIsLimited) {
  std::string deep;
  for (int i = 0; i < kMostXmlDepth; ++i) deep = "<a>" + deep + "</a>";
  EXPECT_TRUE(ReadXml(deep, "a.xml").ok());
  const auto deeper = ReadXml("<a>" + deep + "</a>", "a.xml");
  ASSERT_FALSE(deeper.ok());
  EXPECT_THAT(std::string(deeper.status().message()), HasSubstr("nested more than 100 deep"));
  std::string deepest;
  for (int i = 0; i < 100000; ++i) deepest += "<a>";
  EXPECT_FALSE(ReadXml(deepest, "a.xml").ok());
}

}  // namespace xml_document_test
}  // namespace twofold
